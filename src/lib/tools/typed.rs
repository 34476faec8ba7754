//! Tools with typed arguments: the schema for the provider and the parser of a call are made from one type.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::agent::tool::receipt_of;
use crate::agent::{Context, Question, Reach, Rights, Shown, Tool, ToolOutput};
use crate::config::Policy;
use crate::provider::{BoxFuture, Schema, ToolSpec};

/// What a tool is, whatever it is called with.
pub(super) struct About {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) properties: &'static [Property],
}

/// How a tool differs from one that is the owner's, changes something and is offered with its description.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Property {
    /// Everybody who may talk here may call it.
    Anybody,
    /// It changes nothing.
    ReadOnly,
    /// The model reads its description only when it asks for it.
    Rare,
    /// As [`Self::Rare`], for a model to which a longer list of tools costs something.
    RareWhereDear,
    /// Its results are pages: an address that is in one was not put together by the model.
    BringsPages,
    /// Several calls in a row run at once, although they change something.
    Parallel,
    /// A call that a restart broke off is rebuilt.
    Resumable,
}

/// A tool whose arguments are a type. The documentation of a field is its description for the model.
pub(super) trait TypedTool: Send + Sync + 'static {
    type Args: DeserializeOwned + JsonSchema + Send;

    const ABOUT: About;

    /// Returns its description for the model, where the settings have a part in it.
    fn description(&self) -> Cow<'static, str> {
        Self::ABOUT.description.into()
    }

    /// Returns what a call would do, for the tool policy.
    fn reach(&self, _args: &Self::Args, _context: &Context) -> Reach {
        Reach::Acts
    }

    /// Returns what the settings say of this very call, when they say more than of the tool.
    fn policy(&self, _args: &Self::Args) -> Option<Policy> {
        None
    }

    /// Returns true when everybody may know what a call is answered with.
    fn is_public(&self, _args: &Self::Args) -> bool {
        false
    }

    /// Returns what the owner is asked about a call; `input` are the arguments as the model wrote them.
    fn question(&self, _args: &Self::Args, input: &Value) -> Question {
        Question::of(Self::ABOUT.name, input)
    }

    /// Returns the answer of a call that will fail whatever the owner says to it, where that is certain.
    fn certain_failure(&self, _args: &Self::Args) -> Option<ToolOutput> {
        None
    }

    /// Returns what a call that succeeded did, one line; by default the first line of its result.
    fn receipt(&self, _args: &Self::Args, result: &str) -> Option<String> {
        (!Self::ABOUT.properties.contains(&Property::ReadOnly)).then(|| receipt_of(result))
    }

    fn run(&self, args: Self::Args, context: &Context) -> impl Future<Output = ToolOutput> + Send;
}

/// The arguments of a tool that takes none.
#[derive(serde::Deserialize, JsonSchema)]
pub(super) struct NoArgs {}

/// Returns `tool` as the agent calls it.
pub(super) fn tool<T: TypedTool>(tool: T) -> Arc<dyn Tool> {
    let schema = schema::<T::Args>().into();
    Arc::new(Typed { tool, schema })
}

struct Typed<T> {
    tool: T,
    schema: Schema,
}

impl<T: TypedTool> Typed<T> {
    fn is(property: Property) -> bool {
        T::ABOUT.properties.contains(&property)
    }
}

impl<T: TypedTool> Tool for Typed<T> {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: T::ABOUT.name.into(),
            description: self.tool.description(),
            schema: self.schema.clone(),
        }
    }

    fn read_only(&self) -> bool {
        Self::is(Property::ReadOnly)
    }

    fn goes_beside_others(&self) -> bool {
        self.read_only() || Self::is(Property::Parallel)
    }

    fn is_resumable(&self) -> bool {
        Self::is(Property::Resumable)
    }

    fn is_closed(&self) -> bool {
        true
    }

    fn rights(&self) -> Rights {
        match Self::is(Property::Anybody) {
            true => Rights::Anybody,
            false => Rights::Owner,
        }
    }

    fn shown(&self) -> Shown {
        if Self::is(Property::Rare) {
            Shown::WhenAsked
        } else if Self::is(Property::RareWhereDear) {
            Shown::WhereCheap
        } else {
            Shown::Always
        }
    }

    fn brings_pages(&self) -> bool {
        Self::is(Property::BringsPages)
    }

    /// Arguments that cannot be parsed do nothing: the call fails with the parser's error.
    fn reach(&self, input: &Value, context: &Context) -> Reach {
        parse(input).map_or(Reach::Free, |args| self.tool.reach(&args, context))
    }

    fn is_public(&self, input: &Value) -> bool {
        self.brings_pages() || parse(input).is_ok_and(|args| self.tool.is_public(&args))
    }

    fn policy(&self, input: &Value) -> Option<Policy> {
        parse(input).ok().and_then(|args| self.tool.policy(&args))
    }

    fn question(&self, input: &Value, _context: &Context) -> Question {
        parse(input).map_or_else(
            |_| Question::of(T::ABOUT.name, input),
            |args| self.tool.question(&args, input),
        )
    }

    fn certain_failure(&self, input: &Value, _context: &Context) -> Option<ToolOutput> {
        self.tool.certain_failure(&parse(input).ok()?)
    }

    fn receipt(&self, input: &Value, result: &str) -> Option<String> {
        let args = parse(input).ok()?;
        self.tool.receipt(&args, result)
    }

    fn run<'a>(&'a self, input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            match parse(input) {
                Ok(args) => self.tool.run(args, context).await,
                Err(why) => ToolOutput::error(format!("the arguments do not fit: {why}")),
            }
        })
    }
}

/// Returns an argument without space around it; `None` for one that says nothing.
pub(super) fn not_blank(argument: Option<String>) -> Option<String> {
    argument
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
}

/// Parses the arguments of a call. A null is an argument that is left out: models write it so.
fn parse<A: DeserializeOwned>(input: &Value) -> Result<A, serde_json::Error> {
    let fields = input.as_object().into_iter().flatten();
    let given: Map<String, Value> = fields
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    serde_json::from_value(Value::Object(given))
}

/// Returns the schema of arguments in the words that all vendors take: no `$schema`, no `$ref`, one type a field.
fn schema<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<A>()
        .to_value();
    simplify(&mut schema);
    if let Value::Object(fields) = &mut schema {
        fields.shift_remove("description");
        fields
            .entry("properties")
            .or_insert_with(|| Value::Object(Map::new()));
    }
    schema
}

fn simplify(schema: &mut Value) {
    let Value::Object(fields) = schema else {
        return;
    };
    for name in ["title", "format", "default"] {
        fields.shift_remove(name);
    }
    // An optional field is one that is not required; what it may be does not say so again.
    if let Some(types) = fields.get_mut("type").filter(|types| types.is_array()) {
        *types = types[0].take();
    }
    if let Some(Value::Array(choices)) = fields.get_mut("enum") {
        choices.retain(|choice| !choice.is_null());
    }
    // No count of anything is less, and the parser says so.
    if fields.get("minimum").and_then(Value::as_u64) == Some(0) {
        fields.shift_remove("minimum");
    }
    if let Some(items) = fields.get_mut("items") {
        simplify(items);
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(simplify);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, PartialEq, serde::Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum Op {
        Add,
        List,
    }

    #[derive(Debug, PartialEq, serde::Deserialize, JsonSchema)]
    struct Args {
        op: Op,
        /// what it is called
        title: Option<String>,
        status: Option<Op>,
        #[schemars(range(min = 1, max = 9))]
        limit: Option<u64>,
        #[serde(default)]
        tags: Vec<String>,
        #[serde(default)]
        all: bool,
    }

    #[test]
    fn a_schema_has_one_type_a_field_and_no_references() {
        let expected = json!({
            "type": "object",
            "properties": {
                "op": {"type": "string", "enum": ["add", "list"]},
                "title": {"description": "what it is called", "type": "string"},
                "status": {"type": "string", "enum": ["add", "list"]},
                "limit": {"type": "integer", "minimum": 1, "maximum": 9},
                "tags": {"type": "array", "items": {"type": "string"}},
                "all": {"type": "boolean"}
            },
            "required": ["op"]
        });
        assert_eq!(schema::<Args>(), expected);
        assert_eq!(
            schema::<NoArgs>(),
            json!({"type": "object", "properties": {}})
        );
    }

    #[test]
    fn a_null_is_an_argument_that_is_left_out() {
        let args: Args =
            parse(&json!({"op": "list", "title": null, "tags": null, "all": null, "more": 1}))
                .expect("it fits");
        let expected = Args {
            op: Op::List,
            title: None,
            status: None,
            limit: None,
            tags: Vec::new(),
            all: false,
        };
        assert_eq!(args, expected);
        let missing = parse::<Args>(&json!({"op": null})).expect_err("it is required");
        assert_eq!(missing.to_string(), "missing field `op`");
    }
}
