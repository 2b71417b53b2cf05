//! Chat templates that try to exhaust memory, stack or time end with an error. The allocator enforces a limit: an
//! allocation beyond it ends this process, as it would end a host's. No test harness, whose threads would be counted
//! too.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use realizar::memory::{self, Host};
use realizar::text::{Chat, ChatTemplate};
use serde_json::json;

/// Several times what a template may hold at once, a fraction of what it would take.
const CEILING: usize = 256 << 20;
/// Half of what the smallest thread of a common host has.
const STACK: usize = 1 << 20;

/// More than what was allocated before anything is counted, and may be freed later.
static HELD: AtomicUsize = AtomicUsize::new(1 << 20);
static PEAK: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn alloc(size: usize, align: usize, _: *mut c_void) -> *mut c_void {
    let held = HELD.fetch_add(size, Ordering::Relaxed) + size;
    PEAK.fetch_max(held, Ordering::Relaxed);
    if held > CEILING {
        std::process::abort();
    }
    // SAFETY: the caller's promise.
    unsafe { System.alloc(Layout::from_size_align_unchecked(size, align)).cast() }
}

unsafe extern "C" fn free(p: *mut c_void, size: usize, align: usize, _: *mut c_void) {
    HELD.fetch_sub(size, Ordering::Relaxed);
    // SAFETY: the caller's promise.
    unsafe { System.dealloc(p.cast(), Layout::from_size_align_unchecked(size, align)) }
}

/// `step` a hundred thousand times, with a namespace that lives on; `x` starts as `start`.
fn grow(start: &str, step: &str) -> String {
    format!("{{% set ns = namespace(x={start}, y=0, z='') %}}{{% for i in range(99999) %}}{step}{{% endfor %}}")
}

fn hostile() -> Vec<String> {
    let set = |start: &str, value: &str| grow(start, &format!("{{% set ns.x = {value} %}}"));
    let big = "{% set a = 'a' * 9999999 %}";
    let mut all = vec![
        // Texts.
        set("'a'", "ns.x ~ ns.x"),
        set("'a'", "ns.x + ns.x"),
        set("'a'", "ns.x * 2"),
        set("'a'", "2 * ns.x"),
        set("'a'", "[ns.x, ns.x]|join"),
        set("'a'", "[ns.x, ns.x]|join(ns.x)"),
        set("'ab'", "ns.x.join(ns.x)"),
        set("'a'", "ns.x.join([ns.x, ns.x])"),
        set("'a'", "'{}{}'.format(ns.x, ns.x)"),
        set("'a'", "'{0}{0}'.format(ns.x)"),
        set("'{0}{0}'", "ns.x.format(ns.x)"),
        set("'a'", "ns.x|replace('a', 'aa')"),
        set("'a'", "ns.x.replace('a', 'aa')"),
        set("'a\n'", "ns.x|indent(1000, true, true)"),
        set("'a\"'", "ns.x|tojson ~ ns.x|tojson"),
        set("'<'", "(ns.x ~ ns.x)|escape"),
        set("'&'", "('x'|safe) + (ns.x ~ '')"),
        set("'a'", "'%s%s' % (ns.x, ns.x)"),
        set("'a'", "ns.x.center(9999999) ~ ns.x.ljust(9999999) ~ ns.x.zfill(9999999)"),
        set("'a'", "ns.x|wordwrap(1, wrapstring='b' * 9999)|truncate(99999999)"),
        set("'a'", "ns.x|string ~ ns.x|upper"),
        set("['a', 'a']", "[ns.x|join, ns.x|join]"),
        set("[['a'], ['a']]", "[ns.x|map('join')|list, ns.x|map('join')|list]"),
        set("'a'", "[ns.x, ns.x]|sum(start='')"),
        set("'a b'", "ns.x ~ ns.x.split() ~ ns.x.split('a')"),
        grow("'a'", "{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}"),
        grow("'a'", "{% set ns.x | upper %}{{ ns.x }}{{ ns.x }}{% endset %}"),
        grow("''", &format!("{{% set ns.x %}}{{{{ ns.x }}}}{}{{% endset %}}", "raw ".repeat(1000))),
        grow("'a'", "{% filter upper %}{{ ns.x }}{% set ns.x = ns.x ~ ns.x %}{% endfilter %}"),
        grow("'a'", &"text ".repeat(10_000)),
        format!("{}{{{{ m('a') }}}}", "{% macro m(x) %}{{ m(x ~ x) }}{{ m(x ~ x) }}{% endmacro %}"),
        "{% macro m(x) %}{{ x }}{{ x }}{% endmacro %}".to_owned() + &set("'a'", "m(ns.x)"),
        "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}".to_owned()
            + &grow("'a'", "{% set ns.x %}{% call m() %}{{ ns.x }}{% endcall %}{% endset %}"),
        "{% for x in ['aaaaaaaa'] recursive %}{{ loop([x ~ x]) }}{{ loop([x ~ x]) }}{% endfor %}".to_owned(),
        "{% for x in ['aaaaaaaa'] recursive %}{% set y = loop([x ~ x]) %}{{ y }}{{ y }}{% endfor %}".to_owned(),
        // Many, none of them large.
        set("[]", "ns.x + ['a' * 4000]"),
        set("[]", "ns.x + [('a' * 4000)|list]"),
        set("[]", "ns.x + ['a b c d e f g h'.split()]"),
        set("[]", "ns.x + [{'a': i, 'b': i}]"),
        set("[]", "ns.x + [range(1000)|list]"),
        "{% for i in range(99999) %}{% do range(i) %}{% do 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'.upper() %}{% endfor %}"
            .to_owned()
            .repeat(20),
        grow("0", "{% macro m() %}{{ i }}{{ ns }}{% endmacro %}"),
        "{% macro o(v) %}{% macro m() %}{{ v }}{% endmacro %}{% endmacro %}".to_owned() + &grow("0", "{{ o('a' * 4000) }}"),
        // Lists and maps.
        set("[1]", "ns.x + ns.x"),
        set("[1]", "ns.x * 2"),
        set("(1,)", "ns.x * 2"),
        set("[1]", "[ns.x, ns.x]"),
        set("[1]", "(ns.x, ns.x)"),
        set("[1]", "{'a': ns.x, 'b': ns.x}"),
        set("[1]", "dict(a=ns.x, b=ns.x)"),
        set("{'a': 1}", "dict(ns.x, b=ns.x)"),
        set("[1]", "[ns.x, ns.x]|list"),
        set("[1]", "[ns.x, ns.x]|sum(start=[])"),
        set("[1]", "ns.x|batch(1)|list + ns.x|batch(1)|list"),
        set("[1]", "ns.x[::-1] + ns.x[:]"),
        set("[1]", "ns.x|reverse|list + ns.x|sort + ns.x|unique|list"),
        set("[1, 2]", "ns.x|groupby(0)"),
        "{{ ([1] * 99999999) ~ '' }}".to_owned(),
        "{{ ((1, 2) * 49999999)|length }}".to_owned(),
        "{{ 'a' * 99999999 }}".to_owned(),
        "{{ 99999999 * 'a' }}".to_owned(),
        "{% set b = ('a' * 99999999) %}".repeat(100),
        "{{ 'a'.upper().join(['b'] * 9999999) }}".to_owned(),
        "{{ [1]|batch(999999999, 0) }}".to_owned(),
        "{{ [1]|slice(999999999) }}".to_owned(),
        "{{ '{:>999}'.format('a') * 99999 }}".to_owned(),
        "{{ '{:.9999999}'.format(1.5) }}".to_owned(),
        big.to_owned() + "{{ a|list }}",
        big.to_owned() + "{{ a.split('') }}",
        big.to_owned() + "{{ a|map('upper')|list }}",
        big.to_owned() + &format!("{{{{ '{}'.format(a) }}}}", "{0}".repeat(1000)),
        big.to_owned() + "{{ [a, a, a]|tojson }}{{ [a, [a, [a]]]|string }}",
        "{% autoescape true %}{{ '<' * 9999999 }}{% endautoescape %}".repeat(3),
        "{% set l = [1e308] * 200000 %}{{ l ~ l ~ l ~ l ~ l ~ l ~ l ~ l }}".to_owned(),
        // Nests, whose end recurses as deep as they are.
        set("[1]", "[ns.x]"),
        set("[1]", "(ns.x,)"),
        set("[1]", "{'a': ns.x}"),
        set("[1]", "dict(a=ns.x)"),
        set("[1]", "[ns.x]|list"),
        set("[1]", "[ns.x]|batch(1)|list"),
        set("[1]", "namespace(a=ns.x)"),
        set("[1]", "[ns]"),
        set("[1]", "ns"),
        set("[1]", "dict(a=ns)"),
        grow("0", "{% set ns.x = namespace(a=ns.x) %}"),
        "{% set a = namespace() %}{% set b = namespace(x=a) %}{% set a.x = b %}{{ a }}".to_owned(),
        "{% set a = namespace() %}{% set a.x = a %}{{ a }}{{ a == a }}{{ a|tojson }}".to_owned(),
        grow("0", "{% for x in [ns.x] %}{% set ns.x = loop %}{% endfor %}"),
        grow("0", "{% for x in [ns.x] %}{% set ns.x = [loop] %}{% endfor %}"),
        "{% for a in [1] %}{% set o = loop %}{% for b in [1] %}{{ loop.changed(o) }}{{ o.changed(loop) }}{% endfor %}{% endfor %}"
            .to_owned(),
        grow("0", "{{ loop.changed(loop) }}"),
        // Chains that hide from whoever looks for their ends.
        "{% raw %}{{ ' {% endraw %}{{ ".to_owned() + &"not ".repeat(100_000) + "1 }}",
        "{{ '{{' }}{# {{ ' #}{{ ".to_owned() + &"1 + ".repeat(100_000) + "1 }}",
        "{{ f(*[1]) }}".to_owned(),
        "{{ dict(**{'a': 1}) }}".to_owned(),
        "{% include 'chat_template' %}".to_owned(),
        "{% block a %}{{ self.a() }}{% endblock %}".to_owned(),
        // Time.
        big.to_owned() + "{% for i in range(99999) %}{% if a == a ~ '' %}{% endif %}{% endfor %}",
    ];
    let forever =
        ["'b' in a", "a[-1]", "a[-1:]", "a|length", "a|int", "a.count('b')", "a < a", "1 < a < a", "a is upper"];
    all.extend(forever.map(|f| format!("{big}{{% for i in range(99999) %}}{{% if {f} %}}{{% endif %}}{{% endfor %}}")));
    all.push(big.to_owned() + "{{ (a ~ 'b').strip(a) }}");
    all.push(big.to_owned() + "{{ (a ~ 'b')|trim(a) }}");
    all.push(
        "{% set l = ['b' * 99] * 9999 %}".to_owned()
            + "{% for i in range(99999) %}{% if l == l + [] %}{% endif %}{% endfor %}",
    );
    all.push("{% set l = range(9999)|list %}{{ (l * 9)|select('in', l)|list|length }}".to_owned());
    all
}

fn main() {
    // SAFETY: what was allocated before is the system's as well.
    assert!(unsafe { memory::try_host(Host { alloc, free, user: null_mut() }) });
    for source in hostile() {
        let before = HELD.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        let error = thread::scope(|s| {
            let render = || {
                let template = ChatTemplate::new(&source, String::new(), String::new());
                template.render(&Chat::new(&[("user", "hi")], false)).err().map(|e| e.to_string())
            };
            thread::Builder::new().stack_size(STACK).spawn_scoped(s, render).unwrap().join().unwrap()
        });
        let shown: String = source.chars().take(160).collect();
        let peak = (PEAK.load(Ordering::Relaxed) - before) >> 20;
        assert!(error.as_ref().is_some_and(|e| e.len() < 1000), "{shown}: {error:?} with {peak} MiB");
        let kept = HELD.load(Ordering::Relaxed).saturating_sub(before);
        assert!(kept < 1 << 20, "{shown}: {kept} bytes are never freed");
    }
    println!("test hostile_templates_stay_below_the_ceiling ... ok");

    // What is fair: a long conversation, gone over for every message.
    let text = "word ".repeat(200);
    let messages: Vec<_> =
        (0..500).map(|i| json!({"role": if i % 2 == 0 { "user" } else { "assistant" }, "content": text})).collect();
    let source = "{% set ns = namespace(text='', users=[]) %}{% for m in messages %}{% set rest = messages[loop.index0:] %}\
                  {% set ns.text = ns.text ~ m.role ~ m.content|trim %}{% set ns.users = ns.users + [m] %}\
                  {% if (rest|selectattr('role', 'equalto', 'user')|list|length) and '</think>' in m.content %}{% endif %}\
                  {% endfor %}{{ ns.text }}{{ ns.users|length }}";
    let variables = json!({"messages": messages});
    let template = ChatTemplate::new(source, String::new(), String::new());
    let out = template.run(variables.as_object().unwrap()).unwrap().plain().unwrap();
    assert!(out.ends_with("500") && out.len() > 500 * 1000);
    println!("test a_long_conversation_is_rendered ... ok");
}
