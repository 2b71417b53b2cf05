//! Enums in Java.

use super::super::bindings::Header;
use super::super::options::camel;
use super::ENUMS;

pub fn filter(header: &Header) -> String {
    let of = ENUMS.iter().find(|one| one.name == "Filter").expect("an enum of filters");
    let members = of.constants(header).map(|(end, constant)| {
        let option = camel(&end.replace("XTC", "XTC_PROBABILITY").to_lowercase());
        format!("    /** {{@link Options#{option}}}. */\n    {end}(Header.{})", constant.name)
    });
    let members = members.collect::<Vec<_>>().join(",\n");
    format!(
        "package realizar;\n\n/** {} The build writes this file: make header. */\npublic enum Filter {{\n{members};\n\n    \
        final int number;\n\n    Filter(int number) {{\n        this.number = number;\n    }}\n}}\n",
        of.doc
    )
}
