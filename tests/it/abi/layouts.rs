//! The layouts of the header's structs: computed here from the header's text, returned by the library, and seen by a C
//! compiler. All three agree, and no struct has padding, with pointers of 8 bytes or of 4.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::c;
use super::host::*;
use realizar::ffi::layout::*;
use realizar::ffi::status::*;

#[derive(Clone, PartialEq, Debug)]
pub struct Member {
    pub name: String,
    pub kind: String,
    pub offset: usize,
    pub size: usize,
}

pub struct Struct {
    pub members: Vec<Member>,
    pub size: usize,
    align: usize,
}

impl Struct {
    fn padding(&self) -> usize {
        self.size - self.members.iter().map(|m| m.size).sum::<usize>()
    }
}

/// The structs of the header under a C compiler with pointers of `pointer` bytes, whose alignments are their sizes.
fn computed(pointer: usize) -> BTreeMap<String, Struct> {
    computed_of(&super::header::code(), pointer)
}

/// Those of any header, without its comments.
pub fn computed_of(code: &str, pointer: usize) -> BTreeMap<String, Struct> {
    let mut structs: BTreeMap<String, Struct> = BTreeMap::new();
    for text in
        code.split("typedef struct ").skip(1).filter(|text| !text.split(';').next().unwrap_or("").contains(" rz_"))
    {
        let (name, rest) = text.split_once('{').expect("a struct has members");
        let (body, _) = rest.split_once('}').expect("a struct ends");
        let mut s = Struct { members: Vec::new(), size: 0, align: 1 };
        for declaration in body.split(';').map(str::trim).filter(|d| !d.is_empty()) {
            let at = declaration.rfind([' ', '*']).expect("a type and a name");
            let (kind, name) = (declaration[..=at].trim().trim_start_matches("struct "), &declaration[at + 1..]);
            let (name, n) = match name.split_once('[') {
                Some((name, n)) => (name, n.trim_end_matches(']').parse().expect("a length")),
                None => (name, 1),
            };
            let (size, align) = match kind {
                "char" | "uint8_t" => (1, 1),
                "int32_t" | "uint32_t" | "float" => (4, 4),
                "uint64_t" | "double" => (8, 8),
                "size_t" => (pointer, pointer),
                other if other.ends_with('*') || other.ends_with("_callback") => (pointer, pointer),
                other => structs.get(other).map(|s| (s.size, s.align)).unwrap_or_else(|| panic!("what is {other}?")),
            };
            let offset = s.size.next_multiple_of(align);
            s.members.push(Member { name: name.to_owned(), kind: kind.to_owned(), offset, size: size * n });
            (s.size, s.align) = (offset + size * n, s.align.max(align));
        }
        s.size = s.size.next_multiple_of(s.align);
        structs.insert(name.trim().to_owned(), s);
    }
    assert!(structs.len() > 12, "{:?}", structs.keys());
    structs
}

/// The library's table: struct, field, offset, size.
fn told() -> Vec<(String, String, usize, usize)> {
    let mut entries = Vec::new();
    loop {
        let mut layout = sized::<rz_layout>();
        let status = unsafe { rz_layout_get(entries.len() as u32, &mut layout, std::ptr::null_mut()) };
        if status == RZ_ERR_NOT_FOUND {
            break entries;
        }
        assert_eq!(status, RZ_OK);
        let [name, field] = [layout.struct_name, layout.field_name].map(|text| text_of(&text));
        entries.push((name, field, layout.offset as usize, layout.size as usize));
    }
}

#[test]
fn the_library_tells_what_the_header_says() {
    let mut expected = Vec::new();
    for (name, s) in computed(size_of::<usize>()) {
        expected.push((name.clone(), String::new(), 0, s.size));
        expected.extend(s.members.into_iter().map(|m| (name.clone(), m.name, m.offset, m.size)));
    }
    let mut told = told();
    told.sort_by(|a, b| (&a.0, a.2, !a.1.is_empty()).cmp(&(&b.0, b.2, !b.1.is_empty())));
    assert_eq!(told, expected);
    let mut layout = sized::<rz_layout>();
    fails(RZ_ERR_NOT_FOUND, "index is 4294967295", |e| unsafe { rz_layout_get(u32::MAX, &mut layout, e) });
}

#[test]
fn a_c_compiler_lays_the_structs_out_as_the_library_tells() {
    let mut source = String::from("#include <realizar.h>\n");
    for (i, (name, field, offset, size)) in told().into_iter().enumerate() {
        let condition = match field.as_str() {
            "" => format!("sizeof({name}) == {size}"),
            field => format!("offsetof({name}, {field}) == {offset} && sizeof((({name} *)0)->{field}) == {size}"),
        };
        writeln!(source, "typedef char entry_{i}[({condition}) ? 1 : -1];").expect("a string");
    }
    c::check(&source, "c99");
}

/// A field that is appended after padding would lie elsewhere on another machine.
#[test]
fn no_struct_has_padding_on_any_machine() {
    for pointer in [4, 8] {
        for (name, s) in computed(pointer) {
            assert_eq!(s.padding(), 0, "{name} with pointers of {pointer} bytes");
        }
    }
}

#[test]
fn a_struct_can_be_declared_ahead_by_its_tag() {
    let mut source = String::new();
    for name in computed(8).keys() {
        writeln!(source, "struct {name};\nvoid use_{name}(const struct {name} *s);").expect("a string");
    }
    source += "#include <realizar.h>\nvoid same(const rz_error *e);\nvoid same(const struct rz_error *e);\n";
    c::check(&source, "c99");
}
