//! Models of a few numbers, laid down by the tests: what they say, and what is refused.

use std::path::PathBuf;

use serde_json::json;

use super::*;
use crate::embedding::Kind::{Passage, Question};
use crate::embedding::safetensors::tests::{file, with};
use crate::sys::atomic;
use crate::sys::atomic::Durability;

const PIECES: [&str; 20] = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "##s", "sat", "on", "a", "mat", "in", "town",
    "and", "slept", "until", "it", "was", "dark", ".",
];

/// A directory with files; `None` takes one away.
struct Place(tempfile::TempDir);

impl Place {
    fn path(&self) -> PathBuf {
        self.0.path().join("tiny model")
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Self {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        atomic::write(&path, bytes.as_ref(), Durability::Rename).expect("written");
        self
    }

    fn without(&self, name: &str) -> &Self {
        std::fs::remove_file(self.path().join(name)).expect("removed");
        self
    }

    fn open(&self, dims: u32) -> Box<dyn Model> {
        open(&self.path(), dims).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Opens it in vain and returns why, without the directory's place.
    fn why(&self) -> String {
        let error = open(&self.path(), 0).err().expect("refused");
        assert!(matches!(error, Error::Unusable(_)));
        error
            .to_string()
            .replace(&self.path().display().to_string(), "DIR")
    }
}

fn config() -> Value {
    json!({"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 8, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": 12, "max_position_embeddings": 10, "vocab_size": 20,
        "type_vocab_size": 2, "hidden_act": "gelu"})
}

fn with_setting(key: &str, value: Value) -> String {
    let mut config = config();
    config[key] = value;
    config.to_string()
}

type Tensor = (String, Vec<usize>, Vec<f32>);

/// The numbers of a transformer of two layers, by chance: x ← x × 1664525 + 1013904223 (32 bits, from 1), its upper half
/// from -1 to 1; gains of norms are 1 + x / 2, their shifts x / 8.
fn tensors() -> Vec<Tensor> {
    let mut names: Vec<(String, Vec<usize>)> = Vec::new();
    let embeddings = [("word", 20), ("position", 10), ("token_type", 2)];
    names.extend(embeddings.map(|(name, rows)| {
        (
            format!("embeddings.{name}_embeddings.weight"),
            vec![rows, 8],
        )
    }));
    let norm = |at: &str| {
        [
            (format!("{at}.LayerNorm.weight"), vec![8]),
            (format!("{at}.LayerNorm.bias"), vec![8]),
        ]
    };
    let linear = |at: &str, outputs, inputs| {
        [
            (format!("{at}.weight"), vec![outputs, inputs]),
            (format!("{at}.bias"), vec![outputs]),
        ]
    };
    names.extend(norm("embeddings"));
    for layer in ["encoder.layer.0", "encoder.layer.1"] {
        names.extend(
            ["query", "key", "value"]
                .into_iter()
                .flat_map(|part| linear(&format!("{layer}.attention.self.{part}"), 8, 8)),
        );
        names.extend(linear(&format!("{layer}.attention.output.dense"), 8, 8));
        names.extend(norm(&format!("{layer}.attention.output")));
        names.extend(linear(&format!("{layer}.intermediate.dense"), 12, 8));
        names.extend(linear(&format!("{layer}.output.dense"), 8, 12));
        names.extend(norm(&format!("{layer}.output")));
    }
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f32::from(u16::try_from(state >> 16).expect("16 bits")) / 32768.0 - 1.0
    };
    let mut tensor = |(name, shape): (String, Vec<usize>)| {
        let numbers = (0..shape.iter().product()).map(|_| match next() {
            x if name.ends_with("LayerNorm.weight") => 1.0 + x / 2.0,
            x if name.ends_with("LayerNorm.bias") => x / 8.0,
            x => x,
        });
        let numbers = numbers.collect();
        (name, shape, numbers)
    };
    names.into_iter().map(&mut tensor).collect()
}

fn bytes(tensors: &[Tensor]) -> Vec<u8> {
    file(
        &tensors
            .iter()
            .map(|(name, shape, numbers)| (name.as_str(), shape.as_slice(), numbers.as_slice()))
            .collect::<Vec<_>>(),
    )
}

fn tokenizer() -> Value {
    let vocab: Map<String, Value> = PIECES
        .iter()
        .zip(0..)
        .map(|(piece, number)| ((*piece).to_owned(), json!(number)))
        .collect();
    json!({"normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
        "lowercase": true}, "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "vocab": vocab}})
}

/// The transformer of two layers.
fn transformer() -> Place {
    let place = Place(tempfile::tempdir().expect("a directory"));
    place
        .put(CONFIG, config().to_string())
        .put(WEIGHTS, bytes(&tensors()))
        .put("vocab.txt", PIECES.join("\n") + "\n");
    place
}

/// A table of two numbers a piece: `cat` and `sat` apart.
fn table() -> Place {
    let place = Place(tempfile::tempdir().expect("a directory"));
    let mut numbers = [0.0; 40];
    (numbers[10], numbers[15], numbers[12]) = (3.0, 4.0, 3.0);
    place
        .put(CONFIG, r#"{"model_type": "model2vec"}"#)
        .put("tokenizer.json", tokenizer().to_string());
    place.put(WEIGHTS, file(&[(TABLE, &[20, 2], &numbers)]));
    place
}

fn vector(model: &mut Box<dyn Model>, text: &str) -> Option<Vec<f32>> {
    model
        .embed(Passage, &[text])
        .expect("vectors")
        .pop()
        .expect("one")
}

#[track_caller]
fn near(found: Option<Vec<f32>>, expected: &[f32]) {
    let found = found.expect("a vector");
    let apart = found
        .iter()
        .zip(expected)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max);
    assert!(
        found.len() == expected.len() && apart < 2e-6,
        "{found:?} {expected:?}"
    );
}

// What a transformer says. The numbers were computed by an independent program in numpy: 64 bits, erf of the C library, from the
// definition of BertModel and the numbers of `tensors`.

const CATS_SAT: [f32; 8] = [
    -0.202_947, -0.090_043, -0.076_61, -0.196_438, 0.111_149, 0.109_85, 0.856_541, -0.384_922,
];

#[test]
fn a_transformer_says_what_the_definition_says() {
    let mut model = transformer().open(0);
    assert!(model.name().ends_with("/8"), "{}", model.name());
    near(vector(&mut model, "The cats sat"), &CATS_SAT);
    near(vector(&mut model, " thE cÁts\nsat"), &CATS_SAT);
}

#[test]
fn the_first_piece_speaks_for_a_model_that_pools_so() {
    let place = transformer();
    place.put(POOLING, r#"{"word_embedding_dimension": 8, "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}"#);
    let expected = [
        -0.187_372, -0.083_001, -0.056_026, -0.214_556, 0.092_654, 0.140_311, 0.834_477, -0.429_192,
    ];
    near(vector(&mut place.open(0), "The cats sat"), &expected);
}

#[test]
fn the_first_numbers_alone_have_length_one_again() {
    let mut model = transformer().open(4);
    assert!(model.name().ends_with("/4"), "{}", model.name());
    near(
        vector(&mut model, "The cats sat"),
        &[-0.662_814, -0.294_075, -0.250_205, -0.641_557],
    );
    let place = transformer();
    let error = open(&place.path(), 9).err().expect("refused").to_string();
    assert!(
        error.ends_with(
            "its vectors have 8 numbers, [memory.embeddings] dims asks for 9; 0 takes all"
        ),
        "{error}"
    );
}

#[test]
fn a_text_longer_than_the_model_takes_is_averaged_over_windows_of_one_length() {
    let text = "the cats sat on a mat in town and bicycle";
    let place = transformer();
    // Ten places hold eight pieces: of eleven, six and five.
    let two = [
        -0.197_019, -0.080_872, -0.076_523, -0.197_771, 0.111_062, 0.112_676, 0.850_084, -0.402_493,
    ];
    near(vector(&mut place.open(0), text), &two);
    // The model says that it was trained with five: three, three, three and two.
    place.put(
        "sentence_bert_config.json",
        r#"{"max_seq_length": 5, "do_lower_case": false}"#,
    );
    let four = [
        -0.202_048, -0.083_622, -0.073_529, -0.190_212, 0.100_336, 0.099_361, 0.863_483, -0.380_859,
    ];
    near(vector(&mut place.open(0), text), &four);
}

#[test]
fn a_text_has_the_same_vector_alone_and_among_many() {
    let mut model = transformer().open(0);
    let texts: Vec<String> = (1..200)
        .map(|count| {
            ["cat", "sat", "the mat", "dark"]
                .repeat(count % 17 + 1)
                .join(" ")
        })
        .collect();
    let texts: Vec<&str> = texts
        .iter()
        .map(String::as_str)
        .chain(["", "bicycle"])
        .collect();
    let found = model.embed(Passage, &texts).expect("vectors");
    assert_eq!(found.len(), texts.len());
    for (text, found) in texts.iter().zip(found) {
        match vector(&mut model, text) {
            Some(alone) => near(found, &alone),
            None => assert_eq!(found, None, "{text}"),
        }
    }
}

#[test]
fn a_text_without_known_words_has_no_vector() {
    for place in [transformer(), table()] {
        let mut model = place.open(0);
        let found = model
            .embed(
                Passage,
                &["", " \n\0", "bicycle", "cat bicycle tram", "cat"],
            )
            .expect("vectors");
        assert_eq!(
            found.iter().map(Option::is_some).collect::<Vec<_>>(),
            [false, false, false, false, true]
        );
    }
    assert_eq!(transformer().open(0).embed(Passage, &[]), Ok(Vec::new()));
}

#[test]
fn what_goes_before_a_question_and_a_passage_is_the_models_to_say() {
    let prompts = |question: &str, passage: &str| {
        json!({"prompts": {"query": question, "passage": passage}}).to_string()
    };
    let place = transformer();
    place.put(PROMPTS, prompts("", "The "));
    let mut model = place.open(0);
    near(vector(&mut model, "cats sat"), &CATS_SAT);
    let question = model
        .embed(Question, &["the cats sat"])
        .expect("vectors")
        .pop()
        .flatten();
    near(question, &CATS_SAT);
    assert_eq!(
        model.embed(Passage, &["", "bicycle", "bicycle cat tram"]),
        Ok(vec![None; 3]),
        "a prompt alone says nothing"
    );
    // Ten places hold eight pieces, and the prompt is one of them: nine others are five and four.
    let halves = ["the cats sat on a", "the mat in town until"]
        .map(|half| vector(&mut transformer().open(0), half));
    let [Some(first), Some(second)] = halves else {
        panic!("two vectors")
    };
    let mean = first
        .iter()
        .zip(second)
        .map(|(a, b)| 5.0 * a + 4.0 * b)
        .collect();
    near(
        vector(&mut model, "cats sat on a mat in town until"),
        &normal(mean).expect("a vector"),
    );

    let table = table();
    table.put(PROMPTS, prompts("sat ", ""));
    let question = table
        .open(0)
        .embed(Question, &["cat"])
        .expect("vectors")
        .pop()
        .flatten();
    near(question, &[0.6, 0.8]);
    near(vector(&mut table.open(0), "cat"), &[1.0, 0.0]);

    place.put(PROMPTS, prompts("the cat sat on a", ""));
    let file = "DIR/config_sentence_transformers.json";
    assert_eq!(
        place.why(),
        format!("{file}: the prompt \"the cat sat on a\" takes the room of the text behind it")
    );
    place.put(PROMPTS, prompts("the ", "")).put(
        POOLING,
        r#"{"pooling_mode_mean_tokens": true, "include_prompt": false}"#,
    );
    assert_eq!(
        place.why(),
        "DIR/1_Pooling/config.json: include_prompt false is not computed here"
    );
    place.put(PROMPTS, r#"{"prompts": null, "default_prompt_name": null}"#);
    near(vector(&mut place.open(0), "The cats sat"), &CATS_SAT);
}

#[test]
fn a_table_adds_up_the_pieces() {
    let mut model = table().open(0);
    assert!(model.name().ends_with("/2"), "{}", model.name());
    near(vector(&mut model, "cat sat"), &[0.6, 0.8]);
    near(
        vector(&mut model, "Cat, sat the cats cat"),
        &[0.948_683_3, 0.316_227_77],
    );
    near(vector(&mut table().open(1), "cat sat"), &[1.0]);
    assert_eq!(vector(&mut model, "the"), None, "it points nowhere");
}

#[test]
fn weights_under_the_name_of_a_larger_model_are_found() {
    let place = transformer();
    let mut tensors = tensors();
    tensors
        .iter_mut()
        .for_each(|(name, ..)| name.insert_str(0, "bert."));
    place.put(WEIGHTS, bytes(&tensors));
    near(vector(&mut place.open(0), "The cats sat"), &CATS_SAT);
}

#[test]
fn tokenizer_json_goes_before_vocab_txt() {
    let place = transformer();
    place
        .put("tokenizer.json", tokenizer().to_string())
        .put("vocab.txt", "not this");
    near(vector(&mut place.open(0), "The cats sat"), &CATS_SAT);
    let mut cased = tokenizer();
    cased["normalizer"]["lowercase"] = json!(false);
    place.put("tokenizer.json", cased.to_string());
    near(vector(&mut place.open(0), "the cats sat"), &CATS_SAT);
    assert_eq!(vector(&mut place.open(0), "THE CATS SAT"), None);
    place
        .without("tokenizer.json")
        .put("vocab.txt", PIECES.join("\n"))
        .put("tokenizer_config.json", r#"{"do_lower_case": false}"#);
    assert_eq!(vector(&mut place.open(0), "THE CATS SAT"), None);
}

#[test]
fn the_name_changes_when_the_model_does() {
    let place = transformer();
    let name = || place.open(0).name().to_owned();
    let first = name();
    let (begin, dims) = (
        first.strip_prefix("local/tiny-model-").expect("its name"),
        "/8",
    );
    let sum = begin.strip_suffix(dims).expect("its dimensions");
    assert!(
        sum.len() == 8 && sum.chars().all(|c| c.is_ascii_hexdigit()),
        "{first}"
    );
    assert_eq!(name(), first);
    assert_eq!(place.open(4).name(), format!("local/tiny-model-{sum}/4"));
    let mut seen = vec![first];
    let mut changed = |what: &str| {
        let now = name();
        assert!(!seen.contains(&now), "{what}");
        seen.push(now);
    };
    let mut trained = tensors();
    trained
        .iter_mut()
        .for_each(|(.., numbers)| numbers.iter_mut().for_each(|x| *x *= 1.01));
    place.put(WEIGHTS, bytes(&trained));
    changed("its numbers, in a file as long as before");
    place.put(CONFIG, with_setting("layer_norm_eps", json!(1e-5)));
    changed("its settings");
    place.put(POOLING, r#"{"pooling_mode_cls_token": true}"#);
    changed("how it pools");
    place.put("vocab.txt", PIECES.join("\n").replace("cat", "dog"));
    changed("its pieces");
    let prompts =
        |passage: &str| json!({"prompts": {"query": "the cat ", "document": passage}}).to_string();
    place.put(PROMPTS, prompts("the "));
    changed("what goes before a passage");
    place.put(PROMPTS, prompts(""));
    assert_eq!(
        seen.iter().rev().nth(1),
        Some(&place.open(0).name().to_owned()),
        "passages are as before"
    );
}

// What is refused.

#[test]
fn what_is_missing_is_named_with_what_a_directory_holds() {
    let holds = "[memory.embeddings] model names a directory with config.json, model.safetensors, and tokenizer.json or vocab.txt";
    let empty = Place(tempfile::tempdir().expect("a directory"));
    assert_eq!(
        empty.why(),
        format!("DIR: there is no such directory; {holds}")
    );
    for (name, said) in [
        (CONFIG, CONFIG),
        (WEIGHTS, WEIGHTS),
        ("vocab.txt", "vocab.txt or tokenizer.json"),
    ] {
        let place = transformer();
        assert_eq!(
            place.without(name).why(),
            format!("DIR has no {said}; {holds}")
        );
    }
    let place = transformer();
    place
        .put("modules.json", r#"[{"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]"#);
    assert_eq!(
        place.why(),
        "DIR/1_Pooling/config.json is missing, and modules.json says that it belongs to the model"
    );
}

#[test]
fn weights_in_another_form_are_refused_by_name() {
    let check = |file: &str, expected: &str| {
        let place = transformer();
        let why = place.without(WEIGHTS).put(file, "x").why();
        assert!(
            why.starts_with("DIR has no model.safetensors but ") && why.contains(expected),
            "{why}"
        );
    };
    check(
        "model_quint8_avx2.onnx",
        "model_quint8_avx2.onnx: ONNX files, quantised or not, are not read",
    );
    check("onnx/model.onnx", "onnx: ONNX files");
    check("pytorch_model.bin", "PyTorch's own files");
    check("model.safetensors.index.json", "several files");
    check("model.Q4_0.gguf", "GGUF");
    let alone = Place(tempfile::tempdir().expect("a directory"));
    assert!(
        alone.put("model.onnx", "x").why().contains("ONNX files"),
        "what is wrong goes before what else is missing"
    );
}

#[test]
fn other_architectures_are_refused_by_name() {
    let check = |key: &str, value: Value, expected: &str| {
        let place = transformer();
        let why = place.put(CONFIG, with_setting(key, value)).why();
        assert!(
            why.starts_with("DIR/config.json: ") && why.contains(expected),
            "{why}"
        );
    };
    check(
        "model_type",
        json!("xlm-roberta"),
        "xlm-roberta, BertModel; transformers with model_type \"bert\"",
    );
    check("model_type", Value::Null, "BertModel; ");
    check("quantization_config", json!({"bits": 4}), "quantised");
    check(
        "hidden_act",
        json!("gelu_new"),
        "hidden_act is \"gelu_new\"",
    );
    check(
        "position_embedding_type",
        json!("relative_key"),
        "position_embedding_type",
    );
    check("is_decoder", json!(true), "is_decoder");
    check(
        "num_attention_heads",
        json!(3),
        "hidden_size 8 cannot be shared among 3 heads",
    );
    check("num_attention_heads", json!(0), "a size is 0");
    check("hidden_size", json!(0), "a size is 0");
    check("hidden_size", json!("8"), "invalid type");
    check("max_position_embeddings", json!(2), "a text needs 3");
    let place = transformer();
    assert!(
        place
            .put(CONFIG, "{}")
            .why()
            .contains("a model that does not say what it is")
    );
    assert!(
        place
            .put(CONFIG, "{")
            .why()
            .starts_with("DIR/config.json: EOF")
    );
    assert!(
        place
            .put(CONFIG, [b' '; (1 << 20) + 1])
            .why()
            .starts_with("DIR/config.json: it is no file of at most")
    );
}

#[test]
fn steps_that_are_not_computed_are_refused() {
    let place = transformer();
    let why = place
        .put(
            "modules.json",
            r#"[{"type": "sentence_transformers.models.Dense"}]"#,
        )
        .why();
    assert_eq!(why, "DIR/modules.json: the step Dense is not computed here");
    let place = transformer();
    let why = place
        .put(
            POOLING,
            r#"{"pooling_mode_max_tokens": true, "pooling_mode_mean_tokens": true}"#,
        )
        .why();
    assert!(
        why.starts_with(
            "DIR/1_Pooling/config.json: max_tokens and mean_tokens is not computed here"
        ),
        "{why}"
    );
}

#[test]
fn tensors_that_do_not_fit_are_refused_by_name() {
    let place = transformer();
    for at in [0, 4, 7, 30, 36] {
        let mut tensors = tensors();
        let (name, ..) = tensors.remove(at);
        assert_eq!(
            place.put(WEIGHTS, bytes(&tensors)).why(),
            format!("DIR/model.safetensors: the tensor {name} is missing")
        );
    }
    let mut tensors = tensors();
    tensors[0].1 = vec![10, 16];
    let why = place.put(WEIGHTS, bytes(&tensors)).why();
    assert!(
        why.contains(
            "word_embeddings.weight has the shape [10, 16], and config.json makes it [20, 8]"
        ),
        "{why}"
    );
    let place = transformer();
    let why = place
        .put(CONFIG, with_setting("num_hidden_layers", json!(u64::MAX)))
        .why();
    assert!(
        why.contains("the tensor encoder.layer.2.attention.self.query.weight is missing"),
        "{why}"
    );
    let why = place
        .put(CONFIG, with_setting("intermediate_size", json!(u64::MAX)))
        .why();
    assert!(
        why.contains("the tensor encoder.layer.0.intermediate.dense.weight has the shape [12, 8]"),
        "{why}"
    );
    let why = place.put(WEIGHTS, "neither").why();
    assert_eq!(
        why,
        "DIR/model.safetensors: it ends before its header: not a safetensors file"
    );
}

#[test]
fn vocabularies_that_do_not_fit_are_refused() {
    let check = |path: &[&str], value: Value, expected: &str| {
        let place = transformer();
        let mut tokenizer = tokenizer();
        *path.iter().fold(&mut tokenizer, |at, key| &mut at[*key]) = value;
        let why = place.put("tokenizer.json", tokenizer.to_string()).why();
        assert!(why.starts_with("DIR/") && why.contains(expected), "{why}");
    };
    check(
        &["model", "type"],
        json!("Unigram"),
        "a tokenizer of the kind Unigram; only WordPiece is read",
    );
    check(
        &["model"],
        json!({"vocab": [["a", -1.0]]}),
        "of the kind unnamed",
    );
    check(
        &["model", "continuing_subword_prefix"],
        json!("_"),
        "not marked with ##",
    );
    check(&["normalizer"], Value::Null, "BertNormalizer");
    check(&["normalizer", "type"], json!("NFKC"), "BertNormalizer");
    check(
        &["normalizer", "clean_text"],
        json!(false),
        "BertNormalizer",
    );
    check(
        &["pre_tokenizer", "type"],
        json!("Whitespace"),
        "BertPreTokenizer",
    );
    check(
        &["model", "vocab", "tram"],
        json!(20),
        "its vocabulary (21 pieces) is not that of config.json (vocab_size 20)",
    );
    check(&["model", "vocab"], json!({"cat": 1}), "no piece [CLS]");
    check(&["model", "vocab", "cat"], json!(-1), "invalid value");
    let place = transformer();
    assert!(
        place
            .put("vocab.txt", b"\xff\n")
            .why()
            .starts_with("DIR/vocab.txt: invalid utf-8")
    );
}

#[test]
fn tables_that_do_not_fit_are_refused() {
    let check = |bytes: Vec<u8>, expected: &str| {
        let place = table();
        assert_eq!(
            place.put(WEIGHTS, bytes).why(),
            format!("DIR/model.safetensors: {expected}")
        );
    };
    check(
        file(&[("other", &[1], &[1.0])]),
        "the tensor embeddings is missing",
    );
    check(
        file(&[(TABLE, &[3], &[1.0; 3])]),
        "the tensor embeddings has the shape [3]; a row for each piece is needed",
    );
    check(
        file(&[(TABLE, &[20, 0], &[])]),
        "the tensor embeddings has the shape [20, 0]; a row for each piece is needed",
    );
    check(
        file(&[(TABLE, &[19, 1], &[1.0; 19])]),
        "its vocabulary (20 pieces) is not that of the tensor embeddings (19 rows)",
    );
    let mapped = file(&[(TABLE, &[20, 1], &[1.0; 20]), ("mapping", &[1], &[1.0])]);
    check(
        mapped,
        "a table with the tensor mapping: model2vec with vocabulary_quantization is not computed here",
    );
    let quantised = with(
        r#"{"embeddings":{"dtype":"I8","shape":[20,1],"data_offsets":[0,20]}}"#,
        &[1; 20],
    );
    check(
        quantised,
        "the tensor embeddings is of type I8; F32, F16 and BF16 are read (not quantised models)",
    );
}
