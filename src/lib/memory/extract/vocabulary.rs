//! The words the rules know: words parted by spaces, phrases parted by `|`. Lists, because a word
//! that is not known makes no claim.

/// Returns true when `word` is in `list`, words parted by white space.
pub(super) fn among(list: &str, word: &str) -> bool {
    !word.is_empty() && !word.contains(' ') && stands_in(list, word)
}

/// Returns true when `part` stands in `text` with white space, or nothing, on both sides.
pub(super) fn stands_in(text: &str, part: &str) -> bool {
    let space = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_whitespace);
    let bytes = text.as_bytes();
    text.match_indices(part).any(|(at, _)| {
        space(at.checked_sub(1).and_then(|at| bytes.get(at))) && space(bytes.get(at + part.len()))
    })
}

/// Forms of verbs and their base.
pub(super) const FORMS: &[(&str, &str)] = &[
    ("lives", "live"),
    ("works", "work"),
    ("studies", "study"),
    ("likes", "like"),
    ("loves", "love"),
    ("enjoys", "enjoy"),
    ("adores", "adore"),
    ("prefers", "prefer"),
    ("hates", "hate"),
    ("dislikes", "dislike"),
    ("detests", "detest"),
    ("speaks", "speak"),
    ("has", "have"),
    ("comes", "come"),
    ("plays", "play"),
    ("moved", "move"),
    ("does", "do"),
    ("am", "be"),
    ("is", "be"),
    ("are", "be"),
    ("'s", "be"),
    (":", "be"),
    ("living", "live"),
    ("working", "work"),
    ("named", "called"),
    ("were", "was"),
];

/// Third-person forms that follow a name.
pub(super) const THIRD: &str = "lives works studies likes loves enjoys adores prefers hates dislikes detests speaks has comes plays moved is was doesn't does";

/// Verbs that may go on with the same subject after "and".
pub(super) const GOES_ON: &str =
    "live work study speak have be love like hate prefer dislike was move do can";

/// Words that may stand between a subject and its verb, or before what it is.
pub(super) const ADVERBS: &str = "really also absolutely quite currently now still both actually just recently usually mostly personally truly definitely \
    already originally mainly simply particularly especially always generally normally nowadays officially severely deeply very";

/// What a sentence may begin with and means nothing.
pub(super) const STARTERS: &str = "by the way|in fact|to be clear|for the record|just so you know|for your information|good morning|good evening|\
    thank you|one more thing|these days|as a reminder|for context|small correction|well|so|ok|okay|hi|hello|hey|yes|\
    yeah|yep|no ,|nope|oh|ah|um|and|but|also|actually|btw|fyi|anyway|sure|right|thanks|correction|update|sorry|plus|\
    now|currently|nowadays|personally|reminder|because|,|:|–|please|pls|plz";

/// The wrappers of "remember that …": what follows is meant to be kept.
pub(super) const WRAPPERS: &str = "i want you to remember that|i would like you to remember that|remember that|remember this|remember|\
    please note that|note that|note to self|note|do not forget that|do not forget|never forget that|\
    keep in mind that|keep in mind|bear in mind that|for future reference|for your notes|make a note that|\
    take note that|write down that|fyi|for the record";

/// Relations to people and animals.
pub(super) const RELATIONS: &str = "mother mum mom mama father dad papa parents sister sisters brother brothers sibling siblings twin son sons daughter \
    daughters child children kid kids baby wife husband spouse partner fiancé fiancée fiance fiancee girlfriend boyfriend uncle aunt auntie \
    cousin cousins nephew niece grandmother grandma granny nan grandfather grandpa grandparents grandson granddaughter mother-in-law \
    father-in-law sister-in-law brother-in-law parents-in-law in-laws stepmother stepfather stepson stepdaughter stepsister stepbrother \
    godmother godfather godson goddaughter friend friends flatmate roommate housemate neighbour neighbor colleague coworker co-worker boss \
    manager supervisor mentor assistant doctor gp dentist therapist physiotherapist vet lawyer accountant landlord landlady teacher tutor \
    coach hairdresser babysitter nanny cleaner dog dogs cat cats puppy kitten hamster rabbit parrot horse pony turtle tortoise goldfish budgie";

/// Relations that are many.
pub(super) const PLURAL: &str = "parents sisters brothers siblings sons daughters children kids cousins grandparents parents-in-law in-laws friends dogs cats";

/// What may stand before a relation and belongs to it.
pub(super) const DEGREES: &str =
    "best older younger little big elder eldest oldest youngest twin half middle";

/// A parent's name used as a name.
pub(super) const PARENTS: &str = "mum mom dad grandma grandpa granny";

/// Professions, by their last word.
pub(super) const JOBS: &str = "accountant actor actress analyst animator architect artist astronomer author baker barber barista bartender biologist bookkeeper \
    botanist bricklayer builder butcher carer caretaker carpenter cashier chef chemist chiropractor choreographer clerk coach composer \
    conductor consultant contractor cook copywriter counsellor dancer dentist designer developer dietitian diplomat director doctor \
    economist editor electrician engineer entrepreneur farmer firefighter fisherman florist freelancer gardener geologist geographer \
    gp hairdresser historian illustrator interpreter jeweller journalist judge lawyer lecturer librarian linguist locksmith manager \
    marketer mathematician mechanic midwife musician nanny neurologist notary nurse nutritionist optician optometrist painter \
    paediatrician paralegal paramedic pediatrician pharmacist philosopher photographer physicist physiotherapist pianist pilot plumber \
    podiatrist policeman policewoman potter principal producer professor programmer psychiatrist psychologist radiologist realtor \
    receptionist reporter researcher roofer sailor salesman saleswoman scientist sculptor secretary singer sociologist soldier solicitor \
    statistician surgeon surveyor sysadmin tailor teacher technician therapist translator tutor vet veterinarian violinist waiter waitress \
    welder writer zookeeper zoologist administrator officer";

/// Words after "I am a" that say what somebody is, by the last word.
pub(super) const KINDS: &str = "vegetarian vegan pescatarian christian catholic protestant muslim buddhist hindu jew atheist agnostic introvert extrovert \
    pensioner student smoker non-smoker nonsmoker teetotaller widow widower bachelor diabetic insomniac citizen immigrant refugee expat \
    runner cyclist swimmer climber hiker gamer birdwatcher father mother parent grandmother grandfather dad mum mom veteran";

/// What somebody is, without an article.
pub(super) const TRAITS: &str = "vegetarian|vegan|pescatarian|left-handed|right-handed|colour-blind|color-blind|colour blind|color blind|married|\
    divorced|widowed|retired|self-employed|diabetic|asthmatic|dyslexic|autistic|lactose intolerant|\
    lactose-intolerant|gluten intolerant|bilingual|short-sighted|nearsighted|gay|lesbian|bisexual|jewish|muslim|\
    catholic|buddhist|hindu|agnostic";

/// Nationalities and languages; never names.
pub(super) const NATIONS: &str = "afghan albanian algerian american argentinian argentine armenian australian austrian belarusian belgian bolivian bosnian \
    brazilian british bulgarian cambodian cameroonian canadian catalan chilean chinese colombian congolese croatian cuban cypriot czech danish \
    dutch ecuadorian egyptian english estonian ethiopian european filipino finnish french georgian german ghanaian greek guatemalan haitian \
    hungarian icelandic indian indonesian iranian iraqi irish israeli italian jamaican japanese jordanian kenyan korean kurdish latvian \
    lebanese lithuanian luxembourgish malaysian maltese mexican moldovan mongolian moroccan nepalese nigerian norwegian pakistani palestinian \
    peruvian polish portuguese romanian russian scottish senegalese serbian singaporean slovak slovenian somali spanish sudanese swedish \
    swiss syrian taiwanese tanzanian thai tunisian turkish ugandan ukrainian uruguayan uzbek venezuelan vietnamese welsh yemeni \
    mandarin cantonese arabic hindi urdu bengali farsi persian swahili tamil tagalog hebrew latin esperanto basque galician breton";

/// Places of work that are named by what they are.
pub(super) const WORKPLACES: &str = "bakery bank hospital school university college company startup start-up shop bookshop restaurant café cafe library clinic \
    lab laboratory firm museum hotel factory farm airport ministry agency studio newspaper ngo charity supermarket garage kindergarten \
    nursery theatre theater pharmacy brewery bar pub gym zoo hostel council embassy warehouse workshop gallery cinema florist publisher \
    practice institute foundation union office";

/// Things one has that are worth keeping, by their last word.
pub(super) const POSSESSIONS: &str = "cat cats dog dogs puppy kitten kittens rabbit rabbits hamster hamsters horse horses parrot chickens hens goldfish child \
    children kid kids son sons daughter daughters brother brothers sister sisters sibling siblings twins grandchildren grandson granddaughter \
    stepson stepdaughter asthma diabetes adhd arthritis epilepsy dyslexia migraines endometriosis eczema allergy allergies \
    motorbike motorcycle car bike bicycle van boat caravan allotment greenhouse piano degree phd pacemaker";

/// What one likes "to" do.
pub(super) const HOBBIES: &str = "swim run cook read hike travel dance sing draw paint knit sew garden cycle climb fish sail ski surf bake camp row skate";

/// What one plays.
pub(super) const PLAYED: &str = "piano guitar violin viola cello drums flute saxophone trumpet clarinet harp accordion ukulele bass banjo organ oboe bassoon trombone tuba mandolin recorder keyboard marimba chess football \
    tennis basketball volleyball badminton golf rugby cricket hockey handball squash padel go bridge poker";

/// Counts.
pub(super) const NUMBERS: &str = "one two three four five six seven eight nine ten";

/// Words that are never a name, though a capital may begin them.
pub(super) const NO_NAMES: &str = "i monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september october \
    november december spring summer autumn winter christmas easter mondays tuesdays wednesdays thursdays fridays saturdays sundays \
    everyone everybody nobody someone somebody anyone people nothing everything something it this that these those he she they we you who what \
    which there here where when why how the a an my your our his her their its no not yes if then and or but option plan version ok okay \
    please thanks thank hi hello hey dear sir madam maybe perhaps today tomorrow yesterday tonight sorry sure well so god lord internet \
    english math maths email mail team back head in out up done ready build monday's tbd todo none unknown n/a \
    let do does did is are was were am be been can could will would should one two all most many some any each every both either neither \
    mister life time love work home dinner lunch breakfast coffee tea news nothing step note notes example question answer user \
    spelt spelled written pronounced satan lucifer hitler voldemort";

/// Firms and services: one may work there, but they are no people.
pub(super) const BRANDS: &str = "whatsapp facebook instagram google gmail github discord slack youtube twitter amazon apple microsoft netflix spotify docker";

/// Capitalised things somebody may move to or live in that are no places.
pub(super) const NO_PLACES: &str = "linux windows mac macos android iphone ios firefox chrome vim neovim emacs rust python go java javascript typescript signal \
    notion wayland arch ubuntu debian fedora nixos thunderbird obsidian vscode zed codeberg gitlab mastodon bluesky linkedin hell heaven \
    fear hope peace denial poverty sin harmony pain hiding chaos bed town isolation silence exile luxury doubt";

/// Words that no value has in it: with one of them it is a part of something larger.
pub(super) const NO_VALUE: &str = "i me my mine myself you your yours yourself he him his she her hers we us our ours they them their it its itself this that these \
    those is are was were am be been being have has had do does did will would could should might may must shall can not never no nor what \
    which who whom whose why how if whether there here anybody anyone something someone somebody everything everyone nothing nobody \
    maybe perhaps probably possibly because although though unless until 's";

/// Words a liked thing does not begin with.
pub(super) const NO_THING: &str = "up out off down back still the a an both either neither all none some any most more less better best another other such one same option version plan number \
    when where how that being having getting going what lot lots very too so it even only just right doing seeing knowing thinking hearing \
    saying for with in on at by from about of and or over anything nothing everything fine good great nice okay ok as idea ideas as";

/// Words that end a value: what follows only says when, why or how much.
pub(super) const CUTS: &str = "now too though nowadays currently anyway actually since because with when while where who which so please thanks thank ok okay \
    again ago together already once after before during until every whenever but also fluently natively lol haha these besides btw well still both plus";

/// Phrases that end a value.
pub(super) const CUT_PHRASES: &str = "these days|by the way|as well|a lot|very much|so much|the most|more than|better than|best of|last year|\
    last month|last week|in general|at least|at home|all day|of course|in case|for the record|for years|full time|\
    full-time|part time|part-time|at all|in particular|the best|and a bit|and a little|and some";

/// Phrases that make a state pass, or a thing to come.
pub(super) const PASSING: &str = "today|tonight|yesterday|tomorrow|right now|at the moment|this morning|this afternoon|this evening|this week|\
    this weekend|this month|this summer|this winter|this year|this time|next week|next month|next year|next summer|\
    soon|temporarily|for now|until|for a while|for a bit|used to|no longer|anymore|any more|almost|nearly|formerly|\
    previously|at first|back then|in the past|as a child|as a kid|as a joke|for fun|so far|in my dream|in a dream|\
    in my head|metaphorically|figuratively|practically|basically|virtually";

/// Phrases after which a sentence states nothing.
pub(super) const HEDGES: &str = "if|unless|whether|came back|moved back|went back|then to|then back|maybe|perhaps|probably|possibly|apparently|\
    supposedly|allegedly|hopefully|wish|imagine|imagining|suppose|supposing|supposed|pretend|pretending|\
    hypothetically|theoretically|assuming|assume|let us say|let's|i think|i guess|i believe|i bet|i doubt|i hope|\
    i feel|i dreamed|i dreamt|i fear|i suspect|i imagine|dreamed|dreamt|as though|rather|or something|not sure|\
    unsure|kind of|sort of|kidding|joking|jk|sarcasm|what if|for example|for instance|e.g|example|in theory|seems|\
    seem|could be|might be|may be|as far as|afaik|iirc|had i|were i|otherwise|either|or maybe|whatever|not really|\
    lie|fake";

/// What takes back the sentence before it.
pub(super) const TAKES_BACK: &str = "just kidding|kidding|jk|just joking|only joking|joking|that was a joke|not really|scratch that|no wait|wait no|wait , no|not true|\
    spaß|scherz|nur spaß|war nur spaß|war ein scherz|kleiner scherz|quatsch|stimmt nicht|es broma|broma|es una broma|mentira|je plaisante|je rigole|\
    je blague|c'est une blague|non je plaisante|mais non";

/// Words of what somebody else says.
pub(super) const REPORTED: &str = "said says saying told tells telling claims claimed claim thinks thought believes believed wrote writes according article asked asks \
    heard mentioned replied answered insists insisted assured shouted joked suggests suggested announced reported reports quote quotes lyrics \
    protagonist story novel poem essay roleplay role-play screenplay fiction fictional headline tweet";

/// Words a question without its mark begins with.
pub(super) const ASKING: &str = "what where who whom whose why how which when do does did is are can could will would should shall may am have has was were whenever";

/// Work on a text: the message that asks for it is about that text.
pub(super) const TEXT_WORK: &str = "translate proofread rewrite rephrase paraphrase summarise summarize shorten correct edit write draft compose pretend imagine suppose \
    roleplay role-play act play complete continue say repeat quote transcribe spellcheck reword polish improve consider analyse analyze format spell-check \
    übersetze übersetz korrigiere korrigier formuliere schreib schreibe verfasse fasse lies prüfe traduce traducir corrige resume reescribe redacta \
    traduis traduisez traduire corrigez résume réécris rédige écris \
    classify parse tokenise tokenize answer";

/// "This letter": what points at a text, and what that is called, in four languages.
pub(super) const POINTERS: &str = "this these following below dieser diese dieses diesen diesem folgender folgende folgendes folgenden este esta estos \
    siguiente ce cet cette ces suivant suivante";
pub(super) const TEXTS: &str = "text bio biography letter email e-mail mail essay paragraph sentence sentences draft cv resume résumé introduction intro \
    abstract poem caption profile wording phrasing translation anschreiben absatz satz sätze entwurf brief lebenslauf aufsatz gedicht vorstellung \
    übersetzung texto carta correo párrafo frase frases borrador redacción currículum biografía traducción texte lettre courriel paragraphe phrase \
    phrases brouillon rédaction traduction";
/// What is asked of a text that stands beside the question.
pub(super) const IS_CORRECT: &str =
    "correct grammatical korrekt richtig correcto correcta correcte";

/// Words beside which nothing is kept.
pub(super) const SECRETS: &str = "password passwords passwort passphrase passcode pass-phrase pwd pin pincode pin-code token tokens secret secrets credential credentials \
    cvv cvc iban ssn otp 2fa mfa login api-key apikey keyphrase wifi-password totp mnemonic passkey puk pins";
pub(super) const SECRET_PHRASES: &str = "api key|private key|access key|ssh key|secret key|card number|credit card|debit card|account number|\
    social security|seed phrase|recovery code|recovery phrase|backup code|security code|security question|pin code|\
    passport number|tax number|sort code|routing number|license key|door code|alarm code|safe code|lock code";

/// Words of what somebody may do. In four languages: these are the ones that are tried.
pub(super) const RIGHTS: &str = "admin admins root superuser sudo sudoer privileges privileged permission permissions approval approvals approve approves \
    approved authorised authorized authorise authorize whitelisted allowlisted trusted bypass unrestricted genehmigen genehmigt genehmigung \
    freigeben berechtigt befugt berechtigung autorizado autorizada permisos aprobar autorisé autorisée approuver droits";
pub(super) const RIGHTS_PHRASES: &str = "without asking|never ask|allowed to|access to everything|full access|the owner of all|your owner|your boss|your master|\
    must obey|any command|all commands";

const MONTHS: &str = "january february march april may june july august september october november december jan feb mar apr jun jul aug sep sept oct nov dec \
    januar jänner februar märz mai juni juli oktober dezember okt dez \
    enero febrero marzo abril mayo junio julio agosto septiembre setiembre octubre noviembre diciembre \
    janvier février mars avril juin juillet août septembre octobre novembre décembre";

/// Returns true when `word` names a month, in full or short.
pub(super) fn is_month(word: &str) -> bool {
    among(
        MONTHS,
        word.trim_end_matches(['.', ',']).to_lowercase().as_str(),
    )
}

/// Returns true when the stop behind `word` does not end a sentence.
pub(super) fn is_abbreviation(word: &str) -> bool {
    among(
        "dr mr mrs ms prof st sr jr mt ft no vs e.g i.e approx ca dept inc ltd rev hon capt sgt col gen",
        &word.to_lowercase(),
    )
}

/// Returns true when a line that ends with `word` goes on in the next.
pub(super) fn is_open_end(word: &str) -> bool {
    among(
        "and or but if that because the a an my your of to in at for with from is are was not i said says told as who which when while by on",
        word,
    )
}
