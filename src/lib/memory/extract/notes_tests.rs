use super::notes;
use super::tests::{check_all, check_silent};

#[test]
fn memory_files_are_understood() {
    check_all(
        notes,
        &[
            ("- Birthday: 3 May", &[("user", "birthday", "3 May")]),
            (
                "Name: Ada\nEmail: ada@example.org",
                &[
                    ("user", "name", "Ada"),
                    ("user", "email", "ada@example.org"),
                ],
            ),
            (
                "---\ntitle: x\nname: Bob\n---\n# About the user\n\n- **Favourite colour:** green\n",
                &[("user", "favourite colour", "green")],
            ),
            (
                "# User\n- Sister: Ana\n- Likes: jazz, blues and soul\n- Likes tea",
                &[
                    ("user", "sister", "Ana"),
                    ("user", "likes", "jazz, blues and soul"),
                    ("user", "likes", "tea"),
                ],
            ),
            ("The user lives in Porto.", &[("user", "lives in", "Porto")]),
            ("- User's sister is Ana.", &[("user", "sister", "Ana")]),
            (
                "- User prefers short answers",
                &[("user", "prefers", "short answers")],
            ),
            (
                "The user's birthday is 3 May.",
                &[("user", "birthday", "3 May")],
            ),
            (
                "- 2026-05-03: The user works at Siemens",
                &[("user", "works at", "Siemens")],
            ),
            ("- Ana's birthday: 4 June", &[("Ana", "birthday", "4 June")]),
            (
                "- Sister's birthday: 4 June",
                &[("user's sister", "birthday", "4 June")],
            ),
            (
                "My sister Ana\n\n- Birthday: 6 June",
                &[("user", "sister", "Ana")],
            ),
            (
                "My dog is Rex\n- Birthday: 3 May",
                &[("user", "dog", "Rex"), ("user", "birthday", "3 May")],
            ),
            (
                "I live in Porto\n\nBirthday: 3 May",
                &[("user", "lives in", "Porto"), ("user", "birthday", "3 May")],
            ),
            (
                "My sister Ana lives\nin Porto.",
                &[("user", "sister", "Ana"), ("Ana", "lives in", "Porto")],
            ),
            ("Remember: my dog is called Rex", &[("user", "dog", "Rex")]),
            (
                "# Trip\nThe user is allergic to bees.",
                &[("user", "allergic to", "bees")],
            ),
            ("- [[Ana]] lives in Rome", &[("Ana", "lives in", "Rome")]),
            (
                "  - Birthday: 3 May\n  - Name: Ada",
                &[("user", "birthday", "3 May"), ("user", "name", "Ada")],
            ),
            (
                "- Dates:\n  - Birthday: 3 May\n\nFacts about me:\n- Name: Ada",
                &[("user", "birthday", "3 May"), ("user", "name", "Ada")],
            ),
            (
                "# Long-term memory\nBirthday: 3 May",
                &[("user", "birthday", "3 May")],
            ),
            (
                "Things to remember\n- Birthday: 3 May",
                &[("user", "birthday", "3 May")],
            ),
            (
                "My notes\n- Birthday: 3 May",
                &[("user", "birthday", "3 May")],
            ),
            ("Name:\nBirthday: 3 May", &[("user", "birthday", "3 May")]),
            ("# Monday\nI live in Rome.", &[("user", "lives in", "Rome")]),
            (
                "# Diary, 4 May 2026\n## 2026-05-04\n- Birthday: 3 May\n# Freitag, 8. Mai\nI like tea.",
                &[("user", "birthday", "3 May"), ("user", "likes", "tea")],
            ),
            (
                "- Allergies: nuts and bees\n- Timezone: Europe/Lisbon\n- Job: nurse",
                &[
                    ("user", "allergic to", "nuts and bees"),
                    ("user", "time zone", "Europe/Lisbon"),
                    ("user", "works as", "nurse"),
                ],
            ),
        ],
    );
}

#[test]
fn notes_that_state_nothing_make_no_claim() {
    check_silent(
        notes,
        &[
            "Name:",
            "- Name: (what to call you)",
            "- Name: _your name_",
            "Name: <name>",
            "Name: unknown",
            "Birthday: TBD",
            "Birthday: 3 May?",
            "# Ana\n- Birthday: 3 May",
            "# June\n- Birthday: 3 May",
            "- Sister: (below)\n  - Birthday: 1 June",
            "- Tim\n    - Age: 8\n\n  Birthday: 1 June",
            "- Dr. Huber\n  Phone: +351 912 345 678",
            "Anna Berger\nPhone: +351 912 345 678",
            "Anna Berger\n\nPhone: +351 912 345 678",
            "Anna Berger:\nBirthday: 6 June",
            "Meine Schwester:\n- Birthday: 6 June",
            "my sister\n- Birthday: 6 June",
            "**Tom Haas**\n- Birthday: 6 June\n- I live in Rome.",
            "# Identity\nName: Jarvis",
            "# Soul\nI am Jarvis and I like jazz.",
            "---\ntype: person\nname: Ana\n---\n- Birthday: 3 May",
            "---\nname: Ana\nbirthday: 3 May\n---\n",
            "- [ ] Birthday: 3 May",
            "~~Name: Ada~~",
            "<!--\nName: Ada\n-->",
            "```\nName: Ada\n```",
            "> Name: Ada",
            "| Name: Ada | x |",
            "Password: hunter",
            "PIN: 1234",
            "TODO: call Ana",
            "Decision: use Rust",
            "Status: done",
            "Lasting facts and decisions, one line each, newest last.",
            "The user might move to Rome.",
            "User asked about Rome.",
            "The user is tired today.",
        ],
    );
}
