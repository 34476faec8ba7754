//! Words that say nothing about what a question is about, and forms that no rule of endings explains.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// Returns true for a word that is left out of questions; `word` is lower case, without accents.
pub(crate) fn is_stop(word: &str) -> bool {
    static STOP: LazyLock<HashSet<&str>> = LazyLock::new(|| {
        STOP_WORDS
            .iter()
            .flat_map(|words| words.split_whitespace())
            .collect()
    });
    STOP.contains(word)
}

/// Returns the base form of an irregular English one: `bought` is `buy`.
pub(crate) fn base_of(word: &str) -> Option<&'static str> {
    static BASES: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
        let families = IRREGULAR.split(';').filter_map(|family| {
            let mut words = family.split_whitespace();
            let base = words.next()?;
            Some(words.map(move |word| (word, base)))
        });
        families.flatten().collect()
    });
    BASES.get(word).copied()
}

/// English, German, French, Spanish, Italian, Portuguese, Dutch, Russian: articles, pronouns,
/// prepositions, auxiliaries, question words. What means something in English (`die`, `hat`, `come`,
/// `van`) is left out of the other lists.
const STOP_WORDS: &[&str] = &[
    "a about above after again against all also am an and any are as at be because been before being below between both but \
     by can could d did do does doing don down during each few for from further had has have having he her here hers \
     herself him himself his how i if in into is it its itself just kind ll m many may me might more most much must my \
     myself no nor not now of off on once only or other our ours ourselves out over own re s same shall she should so some \
     such t than that the their theirs them themselves then there these they this those through to too type under until up \
     ve very was we were what when where which while who whom whose why will with would you your yours yourself yourselves \
     didn doesn isn wasn weren hasn haven hadn won couldn shouldn wouldn let",
    "aber alle als auch auf aus bei bis bist da das dass dein deine dem der des dir dich doch dort durch ein eine einem \
     einen einer eines er es euer habe haben hatte hier ich ihm ihn ihr ihre im ist ja kann kein keine konnen mein meine \
     mich mir nach nicht noch nur ob oder ohne sein seine sich sie sind uber um und uns unser unter vom von vor wann warum \
     welche welcher welches wenn wer wie wieder wird wo wurde zu zum zur",
    "au aux avec ce ces cette dans de des du elle elles en est et etait etre il ils je la le les leur lui ma mais mes moi \
     mon ne nous ou par pas pour qu quand que quel quelle qui sa se ses sont sur ta te tes toi ton tu un une vos votre vous",
    "como con cual cuando de del donde el ella ellas ellos en eres es esta este esto fue ha han la lo mi mis muy nos o para \
     pero por porque que quien se ser si sin sobre sus te tu tus un una unos y yo",
    "alla che chi ci con cosa da dal dei del della delle di e ed gli ha ho i il in io la le lei lo loro lui mi mia mio ne \
     nel nella non o per perche piu quale quando quello questa questo sono sul tra tu un una",
    "ao aos como da das de dos e ela ele eles em essa esse esta este eu foi foram isso isto meu minha na nas nao nos num o \
     onde ou para pela pelo por qual quando que quem se sem seu sua um uma voce",
    "aan als bij dat de deze dit een en er had heb hebben heeft het hoe hun ik in is je jij kan maar mij mijn naar niet nog \
     of om onze ook op over te uit voor waar wanneer wat we welke wie wij zij zijn zou",
    "а без бы был была были было быть в вам вас весь во вот все вы где да для до его ее если есть еще же за и из или им их \
     к как ко когда кто ли мне мой моя мы на над наш не него нее нет ни но ну о об он она они от по под почему при с со так \
     там тебя то тот ты у уже что чтобы эта эти это этот я",
];

/// A family a `;`: the base form, then the forms that become it.
const IRREGULAR: &str = "be am is are was were been;go goes went gone;buy bought;see saw seen;take took taken;make made;\
    get got gotten;give gave given;come came;know knew known;think thought;find found;tell told;feel felt;leave left;bring brought;\
    begin began begun;keep kept;hold held;write wrote written;stand stood;hear heard;mean meant;meet met;run ran;pay paid;sit sat;\
    speak spoke spoken;lead led;grow grew grown;lose lost;fall fell fallen;send sent;build built;understand understood;\
    draw drew drawn;break broke broken;spend spent;rise rose risen;drive drove driven;wear wore worn;choose chose chosen;\
    eat ate eaten;teach taught;catch caught;sell sold;win won;fly flew flown;swim swam swum;sing sang sung;drink drank drunk;\
    sleep slept;ride rode ridden;throw threw thrown;forget forgot forgotten;fight fought;hide hid hidden;bite bit bitten;\
    blow blew blown;steal stole stolen;wake woke woken;shake shook shaken;child children;man men;woman women;foot feet;tooth teeth;\
    mouse mice;person people;wife wives;leaf leaves;knife knives;shelf shelves;half halves;do did done does;have has had;\
    say said;become became;show shown;seek sought;lend lent;bend bent;dig dug;hang hung;stick stuck;strike struck;swear swore sworn;\
    tear tore torn;freeze froze frozen;shoot shot;shine shone;ring rang rung;sink sank sunk;sweep swept;weep wept;creep crept;\
    deal dealt;dream dreamt;learn learnt;burn burnt;spell spelt;bear born;bind bound;feed fed;flee fled;forgive forgave forgiven;\
    light lit;slide slid;spin spun;swing swung;weave wove woven;good better best;bad worse worst";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_as_words_are_compared() {
        let all = STOP_WORDS
            .iter()
            .flat_map(|words| words.split_whitespace())
            .chain(IRREGULAR.split([';', ' ']));
        for word in all.filter(|word| !word.is_empty()) {
            assert!(
                word.chars()
                    .all(|c| c.is_lowercase() && !"äöüßéèáíóúñçё".contains(c))
                    || !word.is_ascii(),
                "{word}"
            );
        }
        assert_eq!(
            (
                base_of("bought"),
                base_of("buy"),
                is_stop("the"),
                is_stop("car")
            ),
            (Some("buy"), None, true, false)
        );
    }
}
