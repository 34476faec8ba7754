//! What German, Spanish and French sentences state, as tables. How they are read is in `foreign`.

use super::value::Kind;

/// A language. Words are parted by spaces, phrases by `|`.
pub(super) struct Tongue {
    /// "I", which Spanish leaves out.
    pub i: &'static str,
    pub may_leave_out_i: bool,
    pub my: &'static str,
    /// Relations, and the words for them here.
    pub relations: &'static [(&'static str, &'static str)],
    /// What is said of "I" or a relation: see [`Row`].
    pub rows: &'static [Row],
    /// What is said of "my birthday".
    pub own: &'static [Row],
    pub jobs: &'static str,
    pub traits: &'static str,
    /// Where one statement may end and the next begin.
    pub joints: &'static str,
    /// What follows says since when or why.
    pub cuts: &'static str,
    /// Between any two words of a row, without meaning.
    pub adverbs: &'static str,
    /// What a sentence may begin with and means nothing.
    pub starters: &'static str,
    pub wrappers: &'static str,
    /// With one of these nothing is stated.
    pub doubts: &'static str,
    /// What follows one of these is said to the agent, or hangs on it.
    pub you: &'static str,
    pub languages: &'static str,
    /// No value has one of these in it.
    pub no_value: &'static str,
    /// "nicht mehr": both words stand somewhere, and what is said is over.
    pub over: (&'static str, &'static str),
    /// Places with an article; with one all others are none: "aus dem Meeting".
    pub places: &'static str,
    /// Left out before a value, and a thing with one is none: "ich mag die Idee".
    pub articles: &'static str,
}

/// Words (alternatives parted by `/`, those of a third person behind `:`) with `*` for the value; the attribute, the
/// relation itself when empty; and what the value looks like.
pub(super) type Row = (&'static str, &'static str, Kind);

pub(super) const TONGUES: [Tongue; 3] = [
    Tongue {
        i: "ich",
        may_leave_out_i: false,
        my: "mein meine meinen meiner meinem unser unsere",
        relations: &[
            ("wife", "frau ehefrau"),
            ("husband", "mann ehemann"),
            ("sister", "schwester"),
            ("brother", "bruder"),
            ("daughter", "tochter"),
            ("son", "sohn"),
            ("mother", "mutter mama"),
            ("father", "vater papa"),
            ("girlfriend", "freundin"),
            ("boyfriend", "freund"),
            ("grandmother", "oma großmutter"),
            ("grandfather", "opa großvater"),
            ("aunt", "tante"),
            ("uncle", "onkel"),
            ("cousin", "cousin cousine"),
            ("dog", "hund hündin"),
            ("cat", "katze kater"),
            ("boss", "chef chefin"),
            ("colleague", "kollege kollegin"),
            ("neighbour", "nachbar nachbarin"),
            ("flatmate", "mitbewohner mitbewohnerin"),
            ("doctor", "hausarzt hausärztin"),
            ("dentist", "zahnarzt zahnärztin"),
            ("landlord", "vermieter vermieterin"),
            ("partner", "partner partnerin"),
        ],
        rows: &[
            ("heiße:heißt *", "", Kind::Name),
            ("* heiße:heißt", "", Kind::Name),
            ("wohne/lebe:wohnt/lebt in *", "lives in", Kind::Place),
            ("in * wohne/lebe:wohnt/lebt", "lives in", Kind::Place),
            ("bin:ist nach * gezogen/umgezogen", "lives in", Kind::Place),
            ("komme:kommt aus *", "from", Kind::Place),
            ("bin:ist in * geboren/aufgewachsen", "from", Kind::Place),
            ("bin:ist aus *", "from", Kind::Place),
            ("arbeite:arbeitet bei *", "works at", Kind::Employer),
            ("bei * arbeite:arbeitet", "works at", Kind::Employer),
            ("arbeite:arbeitet als *", "works as", Kind::Job),
            ("bin:ist am * geboren", "birthday", Kind::Date),
            ("habe/hab:hat am * geburtstag", "birthday", Kind::Date),
            ("am * geburtstag habe:hat", "birthday", Kind::Date),
            ("bin:ist * jahre alt", "age", Kind::Age),
            ("bin:ist allergisch gegen/auf *", "allergic to", Kind::Food),
            ("allergisch gegen/auf * bin:ist", "allergic to", Kind::Food),
            ("esse:isst kein/keine/keinen *", "does not eat", Kind::Food),
            ("kein/keine/keinen * esse:isst", "does not eat", Kind::Food),
            (
                "trinke:trinkt kein/keine/keinen *",
                "does not drink",
                Kind::Food,
            ),
            (
                "kein/keine/keinen * trinke:trinkt",
                "does not drink",
                Kind::Food,
            ),
            ("mag:mag kein/keine/keinen *", "dislikes", Kind::Thing),
            ("mag/liebe:mag/liebt *", "likes", Kind::Thing),
            ("hasse:hasst *", "dislikes", Kind::Thing),
            ("spreche:spricht *", "speaks", Kind::Languages),
            ("bin:ist *", "is", Kind::Short),
        ],
        own: &[
            ("name ist *", "name", Kind::Name),
            ("geburtstag ist am/der *", "birthday", Kind::Date),
            (
                "hochzeitstag ist am/der *",
                "wedding anniversary",
                Kind::Date,
            ),
            (
                "e-mail/email/mail/e-mail-adresse/mailadresse ist/lautet *",
                "email",
                Kind::Email,
            ),
            (
                "telefonnummer/handynummer/nummer ist/lautet *",
                "phone",
                Kind::Phone,
            ),
            ("adresse ist/lautet *", "address", Kind::Numbered),
            ("lieblingsfarbe ist *", "favourite colour", Kind::Short),
            ("muttersprache ist *", "native language", Kind::Languages),
            ("beruf ist *", "works as", Kind::Job),
        ],
        jobs: "lehrer lehrerin arzt ärztin krankenpfleger krankenschwester pfleger pflegerin ingenieur ingenieurin informatiker informatikerin \
            programmierer programmiererin softwareentwickler softwareentwicklerin entwickler entwicklerin bäcker bäckerin koch köchin kellner \
            kellnerin friseur friseurin maurer tischler schreiner elektriker elektrikerin klempner mechaniker mechanikerin verkäufer verkäuferin \
            buchhalter buchhalterin steuerberater steuerberaterin anwalt anwältin rechtsanwalt rechtsanwältin richter richterin polizist \
            polizistin feuerwehrmann journalist journalistin autor autorin übersetzer übersetzerin dolmetscher dolmetscherin fotograf \
            fotografin musiker musikerin schauspieler schauspielerin architekt architektin biologe biologin chemiker chemikerin physiker \
            physikerin mathematiker mathematikerin psychologe psychologin therapeut therapeutin hebamme erzieher erzieherin sozialarbeiter \
            sozialarbeiterin tierarzt tierärztin zahnarzt zahnärztin apotheker apothekerin landwirt landwirtin gärtner gärtnerin pilot pilotin \
            busfahrer busfahrerin lokführer lokführerin bibliothekar bibliothekarin professor professorin student studentin rentner rentnerin",
        traits: "vegetarier vegetarierin vegetarisch veganer veganerin vegan laktoseintolerant verheiratet geschieden verwitwet linkshänder \
            linkshänderin diabetiker diabetikerin farbenblind deutscher deutsche österreicher österreicherin schweizer schweizerin",
        joints: ", ; : – und aber",
        cuts: "seit jetzt inzwischen mittlerweile mehr mit weil wo und bzw also übrigens bitte bei neben danke",
        adverbs: "auch jetzt übrigens eigentlich inzwischen mittlerweile ja nun bitte leider sehr schwer stark",
        starters: "hallo hi hey guten morgen tag abend moin servus ja nein also achso ach übrigens und danke doch sorry stimmt genau nee aha okay ok eigentlich aber oh na gut , : – korrektur",
        wrappers: "merk dir bitte , dass|merk dir , dass|merke dir , dass|merke dir bitte , dass|bitte merk dir , dass|bitte merke dir , dass|merk dir bitte|\
            merk dir|merke dir|denk daran , dass|denk dran , dass|vergiss nicht , dass|notier dir , dass|notiere , dass|notiere dir , dass|zur info|nur zur info",
        doubts: "vielleicht|wenn|falls|angenommen|stell dir vor|sagen wir|tun wir so|als ob|ob|eventuell|möglicherweise|wahrscheinlich|vermutlich|könnte|\
            könnten|würde|würden|wäre|hätte|glaube|denke|schätze|hoffe|wünschte|sagt|sagte|meint|meinte|behauptet|behauptete|laut|angeblich|schreibt|\
            schrieb|erzählt|zitat|roman|geschichte|spaß|scherz|witz|haha|bald|demnächst|nächstes jahr|werde|will|möchte|früher|damals|heute|gerade|\
            momentan|zurzeit|zur zeit|morgen|fast|nie|beispiel|oder",
        you: "du dein deine deinen deinem dich dir euch euer",
        languages: "deutsch englisch französisch spanisch italienisch portugiesisch polnisch russisch türkisch arabisch chinesisch japanisch \
            niederländisch kroatisch serbisch griechisch ukrainisch dänisch schwedisch norwegisch",
        no_value: "montag montage dienstage mittwoche donnerstage freitage samstage sonntage ich sie ihr ihn option variante version idee miete untermiete scheidung trennung angst armut frieden sorge sünde gedanken ruhe harmonie haus \
            vollmond mondschein bahnhofsnähe prinzip neugier zufall versehen gewohnheit langeweile protest überzeugung regen nacht licht hitze kälte tageslicht mich mir mein meine er es das dies diese dieser wir uns man dass wie was wer so sehr zu nur noch doch immer am im ist sind bin nicht kein keine ein",
        over: ("nicht", "mehr"),
        places: "schweiz türkei ukraine slowakei mongolei niederlanden usa vereinigten philippinen iran irak libanon sudan kosovo pfalz eifel stadt lausitz",
        articles: "der die das den dem",
    },
    Tongue {
        i: "yo",
        may_leave_out_i: true,
        my: "mi mis nuestro nuestra",
        relations: &[
            ("wife", "mujer esposa"),
            ("husband", "marido esposo"),
            ("sister", "hermana"),
            ("brother", "hermano"),
            ("daughter", "hija"),
            ("son", "hijo"),
            ("mother", "madre mamá"),
            ("father", "padre papá"),
            ("girlfriend", "novia"),
            ("boyfriend", "novio"),
            ("grandmother", "abuela"),
            ("grandfather", "abuelo"),
            ("aunt", "tía"),
            ("uncle", "tío"),
            ("cousin", "primo prima"),
            ("dog", "perro perra"),
            ("cat", "gato gata"),
            ("boss", "jefe jefa"),
            ("friend", "amigo amiga"),
            ("neighbour", "vecino vecina"),
            ("doctor", "médico médica"),
            ("dentist", "dentista"),
            ("partner", "pareja"),
        ],
        rows: &[
            ("me:se llamo:llama *", "", Kind::Name),
            ("vivo:vive en *", "lives in", Kind::Place),
            ("me:se he:ha mudado a *", "lives in", Kind::Place),
            ("me:se mudé:mudó a *", "lives in", Kind::Place),
            ("soy:es de *", "from", Kind::Place),
            ("trabajo:trabaja para *", "works at", Kind::Employer),
            ("trabajo:trabaja de/como *", "works as", Kind::Job),
            ("nací:nació el *", "birthday", Kind::Date),
            ("nací:nació en *", "from", Kind::Place),
            ("cumplo:cumple años el *", "birthday", Kind::Date),
            ("tengo:tiene * años", "age", Kind::Age),
            ("soy:es alérgico/alérgica a/al *", "allergic to", Kind::Food),
            ("no como:come *", "does not eat", Kind::Food),
            ("no bebo/tomo:bebe/toma *", "does not drink", Kind::Food),
            ("hablo:habla *", "speaks", Kind::Languages),
            ("soy:es *", "is", Kind::Short),
            ("estoy:está *", "is", Kind::Short),
        ],
        own: &[
            ("nombre es *", "name", Kind::Name),
            ("cumpleaños es el *", "birthday", Kind::Date),
            ("aniversario es el *", "anniversary", Kind::Date),
            ("correo/email/e-mail es *", "email", Kind::Email),
            ("teléfono/móvil/número es el/ *", "phone", Kind::Phone),
            ("dirección es *", "address", Kind::Numbered),
            ("color favorito es el/ *", "favourite colour", Kind::Short),
            (
                "lengua materna es el/ *",
                "native language",
                Kind::Languages,
            ),
        ],
        jobs: "profesor profesora maestro maestra médico médica doctor doctora enfermero enfermera ingeniero ingeniera informático informática programador \
            programadora desarrollador desarrolladora abogado abogada arquitecto arquitecta periodista escritor escritora traductor traductora fotógrafo \
            fotógrafa músico música actor actriz cocinero cocinera camarero camarera panadero panadera peluquero peluquera carpintero fontanero \
            electricista mecánico mecánica contable psicólogo psicóloga veterinario veterinaria dentista farmacéutico farmacéutica biólogo bióloga \
            químico química físico física policía bombero bombera piloto taxista jubilado jubilada estudiante",
        traits: "vegetariano vegetariana vegano vegana celíaco celíaca diabético diabética zurdo zurda daltónico casado casada divorciado divorciada viudo viuda \
            soltero soltera español española mexicano mexicana argentino argentina colombiano colombiana chileno chilena peruano peruana",
        joints: ", ; : – y e pero",
        cuts: "desde ahora con porque pero por cerca gracias hace",
        adverbs: "también ahora muy",
        starters: "hola buenas buenos días tardes ah y e bueno por cierto gracias sí pues vale ok oye , : – ¡hola en realidad perdón además mira",
        wrappers: "recuerda que|apunta que|acuérdate de que|ten en cuenta que|no olvides que|anota que|que sepas que",
        doubts: "si|quizás|quizá|tal vez|a lo mejor|ojalá|supongamos|supón|imagina|imagínate|digamos|como si|creo|pienso|supongo|espero|dice|dicen|dijo|según|cuenta|\
            decía|novela|cuento|ejemplo|broma|jaja|jajaja|pronto|hoy|mañana|antes|casi|nunca|o|querría|quiero|me gustaría|quisiera",
        you: "tú tu tus te ti usted su",
        languages: "español castellano inglés francés alemán italiano portugués catalán gallego vasco euskera chino japonés árabe ruso polaco neerlandés",
        no_value: "yo nada mucho fuera bien tanto hoy ayer siempre antes me mi mis él ella eso esto ese esta este que qué como muy lo le les nos su sus más menos aquí allí casa paz un una",
        over: ("ya", "no"),
        places: "",
        articles: "",
    },
    Tongue {
        i: "je",
        may_leave_out_i: false,
        my: "mon ma mes notre nos",
        relations: &[
            ("wife", "femme épouse"),
            ("husband", "mari époux"),
            ("sister", "sœur soeur"),
            ("brother", "frère"),
            ("daughter", "fille"),
            ("son", "fils"),
            ("mother", "mère maman"),
            ("father", "père papa"),
            ("girlfriend", "copine"),
            ("boyfriend", "copain"),
            ("grandmother", "grand-mère"),
            ("grandfather", "grand-père"),
            ("aunt", "tante"),
            ("uncle", "oncle"),
            ("cousin", "cousin cousine"),
            ("dog", "chien chienne"),
            ("cat", "chat chatte"),
            ("boss", "chef patron patronne"),
            ("colleague", "collègue"),
            ("friend", "ami amie"),
            ("neighbour", "voisin voisine"),
            ("doctor", "médecin"),
            ("dentist", "dentiste"),
        ],
        rows: &[
            ("m':s' appelle *", "", Kind::Name),
            ("habite/vis:habite/vit à/en/au *", "lives in", Kind::Place),
            ("ai:a déménagé à/en/au *", "lives in", Kind::Place),
            ("viens:vient de/d' *", "from", Kind::Place),
            ("suis:est né/née le *", "birthday", Kind::Date),
            ("suis:est né/née à *", "from", Kind::Place),
            ("suis:est allergique au/aux/à *", "allergic to", Kind::Food),
            (
                "travaille:travaille chez/pour *",
                "works at",
                Kind::Employer,
            ),
            ("travaille:travaille comme *", "works as", Kind::Job),
            ("ai:a * ans", "age", Kind::Age),
            ("ne:ne mange pas de/d' *", "does not eat", Kind::Food),
            ("n' mange pas de/d' *", "does not eat", Kind::Food),
            ("mange:mange pas de/d' *", "does not eat", Kind::Food),
            ("ne:ne bois:boit pas de/d' *", "does not drink", Kind::Food),
            ("bois:boit pas de/d' *", "does not drink", Kind::Food),
            ("parle:parle *", "speaks", Kind::Languages),
            ("suis:est *", "is", Kind::Short),
        ],
        own: &[
            ("nom/prénom est *", "name", Kind::Name),
            ("anniversaire est le *", "birthday", Kind::Date),
            ("anniversaire c' est le *", "birthday", Kind::Date),
            ("email/mail/e-mail/adresse mail est *", "email", Kind::Email),
            ("numéro/téléphone est le/ *", "phone", Kind::Phone),
            ("adresse est *", "address", Kind::Numbered),
            (
                "couleur préférée est le/ *",
                "favourite colour",
                Kind::Short,
            ),
            (
                "langue maternelle est le/ *",
                "native language",
                Kind::Languages,
            ),
        ],
        jobs: "professeur professeure prof instituteur institutrice médecin infirmier infirmière ingénieur ingénieure informaticien informaticienne développeur \
            développeuse programmeur programmeuse avocat avocate architecte journaliste écrivain écrivaine traducteur traductrice photographe \
            musicien musicienne acteur actrice cuisinier cuisinière serveur serveuse boulanger boulangère coiffeur coiffeuse menuisier plombier \
            électricien électricienne mécanicien mécanicienne comptable psychologue vétérinaire dentiste pharmacien pharmacienne biologiste chimiste \
            physicien physicienne policier policière pompier pilote facteur factrice agriculteur agricultrice libraire bibliothécaire retraité \
            retraitée étudiant étudiante",
        traits: "végétarien végétarienne végétalien végétalienne végan végane diabétique gaucher gauchère daltonien marié mariée divorcé divorcée veuf veuve \
            célibataire français française belge suisse québécois québécoise canadien canadienne",
        joints: ", ; : – et mais",
        cuts: "depuis maintenant avec parce mais près merci désormais",
        adverbs: "aussi maintenant très désormais actuellement",
        starters: "bonjour salut coucou bonsoir au fait en fait merci oui non et alors ah ben bon d'accord ok , : – désolé désolée finalement",
        wrappers: "retiens que|note que|n' oublie pas que|souviens-toi que|rappelle-toi que|sache que|pour info",
        doubts: "si|peut-être|sans doute|imagine|imaginons|supposons|disons|comme si|crois|pense|espère|dit|disait|disent|selon|d'après|prétend|paraît|roman|film|\
            histoire|exemple|blague|bientôt|aujourd'hui|demain|ce soir|en ce moment|presque|jamais|ou|voudrais|veux|aimerais|rêve",
        you: "tu te ton ta tes toi vous votre",
        languages: "français anglais allemand espagnol italien portugais chinois japonais arabe russe breton néerlandais polonais grec",
        no_value: "je me moi mon ma il elle ça cela ce cette ces que qui quoi comme très lui leur nous notre plus moins ici là un une des",
        over: ("ne n'", "plus"),
        places: "",
        articles: "",
    },
];
