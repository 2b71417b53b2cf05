"""Writes jinja_table.json: templates and what jinja2 makes of them in the settings of transformers.

Run with jinja2 3.1.6 and transformers 5: python make_jinja_table.py > jinja_table.json
A case is [template, text], or [template, null, reason] where rendering fails.
"""

import json
import sys

from jinja2.sandbox import SandboxedEnvironment
from transformers.utils import chat_template_utils

VARIABLES = {
    "tools": None,
    "documents": None,
    "messages": [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "Hi  "},
        {"role": "assistant", "content": None},
    ],
    "n": 7,
    "m": -7,
    "f": 2.5,
    "g": -0.5,
    "z": 0,
    "big": 12345678901234567890,
    "s": "Hello World",
    "e": "",
    "sp": "  a b\t\n c  ",
    "u": "Ünï 日本 😀 ß",
    "q": "it's \"q\" <b>&</b>",
    "num": "42",
    "l": [3, 1, 2],
    "w": ["b", "A", "a", "B", "c"],
    "mixed": [1, "a", None, True, 2.5, [1], {"k": "v"}],
    "d": {"b": 1, "a": "x", "C": [1, {"k": None}]},
    "t": True,
    "no": None,
    "people": [{"name": "bob", "age": 3, "x": {"y": 1}}, {"name": "Al", "age": 1}, {"name": "cy", "age": 3}],
    "lines": "one\ntwo\n\nthree",
    "floats": [1e20, 1e-5, 1e16, 1e15, 123456.789, 0.1, -0.0, 1e300, 5e-324, 1e22, 100.0, 0.0001, 0.00001234],
}

EXPRESSIONS = r"""
1 + 2
7 // 2, 1
n // 2
m // 2
n // -2
m % 3
n % -3
f // 2
g % 1
m / 2
n / 7
6 / 3
2 ** 10
2 ** -1
2 ** 0.5
-2 ** 2
n ** 2
2 ** 3 ** 2
(-8) // 3
-8 // 3
1 / 0
1 // 0
1 % 0
1.5 % 0
10 - 3 - 2
2 * 3 + 4 * 5
(2 + 3) * 4
1 + 2.0
0.1 + 0.2
1e20
1e-5
1e16
1e15
123456789012345.6
1.0
100.0
-0.0
0.0001
1e22
1.5e300 * 1e10
1e400
-1e400
1e400 - 1e400
floats
big
big + 1
big * big
true + 1
true + true
t * 3
-t
+n
+f - +2
-s
+s
'a' * 3
3 * 'a'
'a' * -1
'ab' * 0
[1] * 2
2 * [1, 2]
[1] + [2]
(1, 2) + (3,)
[1] + (2,)
'a' + 'b'
'a' + 1
1 + 'a'
'a' ~ 1 ~ none ~ true ~ 1.0
1 ~ 2
[1, 2] ~ {}
'a' - 'b'
none + 1
missing + 1
missing + 'a'
missing ~ 'a'
missing
missing.x
missing['x']
missing is defined
missing is undefined
n.missing is defined
n.missing
d.missing
d['missing']
d.missing.x
messages[0].nothing is defined
messages[9]
messages[9] is defined
l['a']
s['x']
s.x
n[0]
no.x
no['x']
no[0]
1 == 1.0
1 == true
'1' == 1
none == false
missing == none
missing == missing
missing == ''
[1, 2] == [1, 2]
[1, 2] == (1, 2)
{'a': 1} == {'a': 1.0}
'a' < 'b'
'B' < 'a'
[1, 2] < [1, 3]
[1] < [1, 0]
1 < 2 < 3
1 < 3 < 2
3 > 2 >= 2 != 1
1 < 'a'
none < 1
missing < 1
'a' in 'abc'
'' in 'abc'
1 in [1, 2]
1 in 'abc'
'b' in d
1 in d
'x' not in s
none in [none]
1.0 in [1]
true in [1]
'a' in missing
1 in n
missing in [1]
not 1
not missing
not []
1 and 2
0 and 2
0 or 'x'
'' or none
1 and 0 or 3
not 1 == 2
not true and false
(1 and 2) or 3
'x' if n
'x' if no
('x' if no) is defined
'x' if no else 'y'
'a' if e else 'b' if no else 'c'
1 if missing else 2
l[0]
l[-1]
l[5]
l[-4]
s[0]
s[-1]
s[20]
s[1:4]
s[::-1]
s[::2]
s[-3:]
s[:-3]
s[5:2]
s[-100:3]
s[8:2:-2]
s[:2:-1]
s[1::-1]
s[-1:-4:-1]
s[100:0:-1]
l[1:]
l[:-1]
l[::-1]
l[::2]
l[-2:]
l[2:0:-1]
l[::0]
(1, 2, 3)[1:]
(1, 2, 3)[0]
u[4:6]
u[::-1]
s[1.5]
s[true]
d[0]
n[1:2]
no[1:2]
missing[1:2]
[]
{}
()
(1,)
(1, 2)
[1, [2, (3,)], {'a': none}]
{'a': 1, 2: 'b', none: true, 1.5: []}
{'a': 1, 'a': 2}
{1: 'a', true: 'b'}
['a', "b'c", 'd"e', "f'g\"h", '\n\t\\', 'é', '\x07', '\u200b', '\xa0']
[u, 1.0, 1e20, true, none]
'a' 'b' "c"
'\x41\u00e9\101'
'\d\e'
'\'' ~ "\""
'a\
b'
"a\\nb"
1_000
0x1F
0b101
0o17
1.5e3
1E3
1e+3
s.upper()
s.lower()
u.upper()
'ǆ'.title()
s.title()
"they're bill's".title()
"they're bill's x-y (a".title()
"hello WORLD"|title
"they're x-y (abc [def"|title
'hELLO'.capitalize()
'hELLO wORLD'|capitalize
'ßa'.capitalize()
'hELLO'.swapcase()
'ß'.casefold()
sp.strip()
sp.lstrip()
sp.rstrip()
'xxaxx'.strip('x')
'xyaxy'.lstrip('xy')
'abcabc'.rstrip('cb')
'\x1ca\x1f\u2003'.strip()
'abc'.strip(none)
'a b  c'.split()
'a b  c'.split(' ')
'a b  c'.split(none, 1)
'a,b,c'.split(',', 1)
'a,b,c'.rsplit(',', 1)
'a b  c '.rsplit(none, 1)
'a,b,c'.split(sep=',', maxsplit=1)
'a,b,c'.split(maxsplit=1, sep=',')
''.split()
''.split(',')
'abc'.split('')
'a</think>b</think>c'.split('</think>')[-1]
'a-b-c'.partition('-')
'abc'.partition('-')
'a-b-c'.rpartition('-')
'abc'.rpartition('-')
lines.splitlines()
'a\r\nb\rc\n'.splitlines()
'a\r\nb\rc\n'.splitlines(true)
'a\x0bb\x0cc\u2028d\x85e'.splitlines()
''.splitlines()
'aXbXc'.replace('X', '-')
'aXbXc'.replace('X', '-', 1)
'abc'.replace('', '-')
'abc'.replace('', '-', 2)
'aaa'.replace('a', 'b', -1)
'aXbXc'|replace('X', '-', 1)
'aXbXc'|replace('X', '-')
'aaaa'|replace('a', 'b', count=2)
12321|replace('2', 'x')
none|replace('o', 'x')
'hello'.find('l')
'hello'.find('l', 3)
'hello'.find('l', 4)
'hello'.find('l', 0, 2)
'hello'.find('')
'hello'.find('', 9)
'hello'.find('l', -2)
'hello'.rfind('l')
'hello'.rfind('l', 0, 3)
'hello'.index('l')
'hello'.index('z')
'hello'.rindex('l')
u.find('本')
'banana'.count('an')
'banana'.count('a', 2)
'banana'.count('')
'banana'.startswith('ba')
'banana'.startswith(('x', 'ba'))
'banana'.startswith('na', 2)
'banana'.startswith('ba', 0, 1)
'banana'.startswith(['ba'])
'banana'.endswith('na')
'banana'.endswith(('x', 'na'))
'banana'.endswith('na', 0, 4)
'prefix-x'.removeprefix('prefix-')
'prefix-x'.removeprefix('x')
'a.txt'.removesuffix('.txt')
'a.txt'.removesuffix('')
'ab'.center(7)
'ab'.center(7, '*')
'abc'.center(6, '*')
'abc'.center(2)
'ab'.ljust(5) ~ '|'
'ab'.ljust(5, '.')
'ab'.rjust(5)
'ab'.rjust(5, '0')
'42'.zfill(5)
'-42'.zfill(5)
'+4'.zfill(4)
'abc'.zfill(2)
'ab'.center(5, 'xy')
'a\tb'.expandtabs()
'a\tb\tcd\te'.expandtabs(4)
', '.join(w)
', '.join('abc')
', '.join([1, 2])
', '.join([])
'-'.join(d)
'abc'.isalpha()
'ab1'.isalpha()
''.isalpha()
'123'.isdigit()
'12.3'.isdigit()
'²'.isdigit()
'½'.isnumeric()
'½'.isdigit()
'²'.isdecimal()
'٣'.isdecimal()
'ab1'.isalnum()
'²'.isalnum()
' \t'.isspace()
''.isspace()
'abc'.islower()
'aBc'.islower()
'1a'.islower()
'1'.islower()
'ABC1'.isupper()
'Hello World'.istitle()
'abc'.isascii()
u.isascii()
'a_1'.isidentifier()
'a\nb'.isprintable()
'{} {}'.format(1, 'a')
'{1} {0}'.format('a', 'b')
'{a}-{b}'.format(a=1, b=2)
'{:>5}|{:<5}|{:^5}'.format('a', 'b', 'c')
'{:05d} {:x} {:#x} {:b} {:,}'.format(42, 255, 255, 5, 1234567)
'{:.2f} {:e} {:g} {:%}'.format(3.14159, 12345.678, 0.0001, 0.25)
'{:+d} {: d} {:-d}'.format(1, 2, 3)
'{0!r} {0!s}'.format('a')
'{{}} {}'.format(1)
'{0[k]} {0[0]}'.format({'k': 'v', 0: 1})
'{} {}'.format(1)
'{:d}'.format('a')
'{:*^9}'.format('mid')
'{:.3}'.format('abcdef')
'{}'.format(none) ~ '{}'.format(true) ~ '{}'.format([1, 'a'])
'{:>8}'.format(2.5)
'{:10.3f}|{:<10.1f}|'.format(2.5, 2.25)
'{:g} {:g} {:g}'.format(1e20, 123456789.0, 1.0)
'%s and %s' % ('a', 1)
'%s' % 'a'
'%d%%' % 42
'%5d|%-5d|%05d|%+d' % (1, 2, 3, 4)
'%.2f %e %g' % (3.14159, 12345.678, 0.0001)
'%x %X %o %c' % (255, 255, 8, 'a')
'%s' % [1]
'%s' % none
'%r' % 'a'
'%(a)s-%(b)d' % {'a': 'x', 'b': 2}
'%s %s' % ('a',)
'%s' % ('a', 'b')
'%10s|%-10s|%.2s' % ('a', 'b', 'cdef')
'%d' % 3.7
'%d' % 'a'
'%i' % 2
'%s %d'|format('a', 3)
'%(x)s'|format(x=1)
'%s, %s!'|format('Hello', 'World')
'a'.encode()
'a'.translate({97: 'b'})
'abc'.foo()
'abc'.upper
d.get('a')
d.get('zz')
d.get('zz', 'dflt')
d.get('a', 'dflt')
d.keys()|list
d.values()|list
d.items()|list
d.items()
d.keys()
d.values()
d.items()|length
d.keys() is sequence
d.copy()
d.pop('a')
d.update({'x': 1})
d.setdefault('q', 1)
d.clear()
l.append(1)
l.extend([1])
l.insert(0, 1)
l.pop()
l.remove(1)
l.reverse()
l.sort()
l.clear()
l.count(1)
l.index(2)
l.index(9)
l.copy()
(1, 2, 1).count(1)
(1, 2).index(2)
n.bit_length()
f.is_integer()
(255).to_bytes(2)
n.real
d.__class__
s.__len__()
s|upper
s|lower
12|upper
s|length
l|length
d|count
missing|length
n|length
none|length
s|first
l|first
[]|first
e|first
s|last
l|last
[]|last
d|first
d|last
s|reverse
l|reverse
l|reverse|list
n|reverse
'  a  '|trim
'xax'|trim('x')
12|trim
none|trim
missing|trim
s|list
d|list
missing|list
n|list
l|sort
w|sort
w|sort(case_sensitive=true)
w|sort(reverse=true)
w|sort(true)
people|sort(attribute='name')|map(attribute='name')|list
people|sort(attribute='age,name')|map(attribute='name')|list
people|sort(attribute='age', reverse=true)|map(attribute='name')|list
[1, 'a']|sort
'hello'|sort
d|dictsort
d|dictsort(true)
d|dictsort(false, 'value')
{'b': 2, 'a': 3, 'C': 1}|dictsort(by='value')
{'b': 2, 'a': 3, 'C': 1}|dictsort(reverse=true)
{'b': 2, 'a': 3, 'C': 1}|dictsort(case_sensitive=true)
d|dictsort(by='other')
w|unique|list
w|unique(true)|list
[1, 1.0, true, 2]|unique|list
people|unique(attribute='age')|map(attribute='name')|list
people|groupby('age')
people|groupby('age')|length
people|groupby('missing', default='none')|map('first')|list
[{'k': 'a'}, {'k': 'A'}, {'k': 'b'}]|groupby('k')
[{'k': 'a'}, {'k': 'A'}, {'k': 'b'}]|groupby('k', case_sensitive=true)
w|min
w|max
w|min(case_sensitive=true)
w|max(case_sensitive=true)
l|min
people|max(attribute='age')
[]|min
[]|max
l|sum
people|sum(attribute='age')
people|sum(attribute='x.y')
[1.5, 2]|sum
[]|sum
l|sum(start=10)
[[1], [2]]|sum(start=[])
['a']|sum
l|join
l|join(', ')
w|join('|')
people|join(', ', attribute='name')
'abc'|join('-')
[1, none, true, 1.0]|join(' ')
missing|join
n|join
l|map('string')|list
l|map('string')|join('-')
w|map('upper')|join
w|map('replace', 'a', 'x')|list
people|map(attribute='name')|list
people|map(attribute='x.y')|list
people|map(attribute='zip', default='-')|list
people|map(attribute='x.y', default=0)|list
[[1, 2], [3, 4]]|map(attribute=0)|list
[[1, 2], [3, 4]]|map('first')|list
[1, 2]|map('nosuch')|list
l|map('abs')|sum
l|select|list
[0, 1, '', 'a', none]|select|list
[0, 1, '', 'a', none]|reject|list
l|select('odd')|list
l|select('gt', 1)|list
l|select('>', 1)|list
l|reject('equalto', 1)|list
l|select('in', [1, 2])|list
l|select('divisibleby', 2)|list
w|select('in', 'abc')|list
people|selectattr('age', 'eq', 3)|map(attribute='name')|list
people|selectattr('x')|list|length
people|selectattr('x', 'defined')|list|length
people|selectattr('x.y', 'equalto', 1)|list|length
people|rejectattr('x', 'defined')|map(attribute='name')|list
people|rejectattr('age', '==', 3)|map(attribute='name')|list
(people|selectattr('age', 'eq', 99)) is iterable
'yes' if people|selectattr('age', 'eq', 99) else 'no'
'yes' if (people|selectattr('age', 'eq', 99)|list) else 'no'
people|selectattr('age', 'eq', 99)|first
people|selectattr('age', 'eq', 99)|first is defined
(l|map('string'))[0]
(l|map('string'))|length
l|select('nosuch')|list
range(3)
range(3)|list
range(1, 10, 3)|list
range(5, 0, -2)|list
range(3)[1]
range(5)[-1]
range(5)|length
range(5)[1:3]
range(0)|list
range(3) == range(3)
2 in range(3)
range(3)|sum
range(200000)|length
range()
[1, 2, 3, 4, 5]|batch(2)|list
[1, 2, 3, 4, 5]|batch(2, 'x')|list
[1, 2, 3, 4, 5]|slice(2)|list
[1, 2, 3, 4, 5]|slice(3, 'x')|list
(l|batch(2)|list)[0]
4.5|round
5.5|round
2.675|round(2)
42.55|round(1, 'floor')
42.51|round(1, 'ceil')
42.55|round
1234|round(-2)
n|round
'a'|round
m|abs
g|abs
'a'|abs
'42'|int
'42.9'|int
'abc'|int
'abc'|int(7)
''|int
none|int
missing|int
f|int
m|int
'0x1F'|int(0, 16)
'1f'|int(base=16)
' 42 '|int
'-5'|int
true|int
[]|int
1e400|int
'4_2'|int
'3.5'|float
'abc'|float
'abc'|float(1.5)
none|float
3|float
'1e3'|float
'inf'|float
'nan'|float
true|float
n|string
none|string
1.0|string
l|string
missing|string
s|string is string
q|e
q|escape
('<'|e) ~ '<'
('<'|e) + '<'
'<'|e|e
'<'|safe|e
'<b>'|safe
('<'|safe) is escaped
'<p>a  b</p> <!-- c -->d'|striptags
q|forceescape
s|default('x')
missing|default('x')
missing|default
missing|d('x')
no|default('x')
no|default('x', true)
e|default('x', true)
e|default('x', boolean=true)
missing|default(default_value='y')
missing.x|default('z')
d.missing|default('z')
'a\nb\n\nc'|indent
'a\nb\n\nc'|indent(2)
'a\nb\n\nc'|indent(2, true)
'a\nb\n\nc'|indent(2, true, true)
'a\nb'|indent('> ')
'a\nb'|indent(width='--', first=true)
'a\n'|indent(2)
'a\r\nb'|indent(2)
''|indent(2, true)
12|indent
'hello world foo bar'|truncate(11)
'hello world foo bar'|truncate(12)
'hello world foo bar'|truncate(11, true)
'hello world foo bar'|truncate(11, false, '!')
'hello world foo bar'|truncate(11, true, '...', 0)
'hello world foo bar'|truncate(14)
'hello world'|truncate(2)
'hello'|truncate
'hello world foo bar'|truncate(11, leeway=0)
'hello world this is a long line'|wordwrap(10)
'hello world this is a long line'|wordwrap(10, false)
'aaaaaaaaaaaaaaa bbb'|wordwrap(5)
'aaaaaaaaaaaaaaa bbb'|wordwrap(5, false)
'aaaa-bbbb cc'|wordwrap(6)
'aaaa-bbbb cc'|wordwrap(6, break_on_hyphens=false)
'a b\nc d e f g'|wordwrap(5, wrapstring='|')
'a b'|center(9) ~ '|'
'a b c'|wordcount
''|wordcount
u|wordcount
1000|filesizeformat
1048576|filesizeformat(true)
1|filesizeformat
1500000|filesizeformat
'a b/c?d=é'|urlencode
{'a': 1, 'b': 'x y'}|urlencode
{'a': 1, 'b': none, 'c': true}|xmlattr
d|items|list
d|items
missing|items|list
l|items|list
d|attr('a')
s|attr('upper')
[1, [2]]|pprint
'x'|nosuch
'x' is nosuch
nosuch()
nosuch(1)
d|tojson
d|tojson(indent=2)
d|tojson(indent=0)
d|tojson(4)
d|tojson(true)
d|tojson(sort_keys=true)
d|tojson(separators=(',', ':'))
d|tojson(indent=2, separators=(',', ': '))
d|tojson(indent='--')
u|tojson
u|tojson(ensure_ascii=true)
q|tojson
'\x00\x1f\x7f\u2028\\/\b\f'|tojson
mixed|tojson
floats|tojson
big|tojson
[1e400, -1e400]|tojson
[[], {}, [[]], [{}]]|tojson(indent=1)
{1: 'a', none: 'b', true: 'c', 1.5: 'd'}|tojson
{(1, 2): 'a'}|tojson
(1, 2)|tojson
missing|tojson
none|tojson
true|tojson
{'b': 1, 'a': {'d': 1, 'c': 2}}|tojson(sort_keys=true, indent=2)
'a'|tojson|tojson
d.items()|tojson
range(3)|tojson
n is number
t is number
f is number
s is number
n is integer
t is integer
f is float
n is float
t is boolean
n is boolean
no is none
missing is none
s is string
n is string
s is sequence
l is sequence
d is sequence
(1, 2) is sequence
missing is sequence
n is sequence
s is mapping
d is mapping
l is mapping
s is iterable
l is iterable
d is iterable
n is iterable
no is iterable
missing is iterable
range is callable
s is callable
n is odd
n is even
m is odd
n is divisibleby 7
n is divisibleby(2)
n is divisibleby 0
f is odd
s is odd
'abc' is lower
'ABC' is upper
'1' is lower
12 is lower
n is eq 7
n is ==(7)
n is gt 3
n is ge(7)
n is lessthan 3
n is ne 3
n is in [7]
n is not in [7]
'a' is in 'abc'
l is sameas l
l is sameas [3, 1, 2]
none is sameas none
true is sameas true
1 is sameas true
n is sameas 7
n is not none
n is not defined
n is defined and n > 3
n is number and s is string
not n is none
true is true
1 is true
false is false
0 is false
'upper' is filter
'nosuch' is filter
'odd' is test
'<'|safe is escaped
s is escaped
dict(a=1, b=2)
dict([('a', 1), ('b', 2)])
dict({'a': 1}, b=2)
dict()
dict(d)
dict(d, z=1)['z']
dict(1)
namespace(a=1).a
namespace(a=1)['a']
namespace({'a': 1}, b=2).b
namespace(_x=1)
namespace().x
strftime_now('%%')
lipsum
joiner
raise_exception('boom')
1, 2
l[1], s
loop
self
caller
true, false, none
True, False, None
'a' if true
(1 if false)|default('u')
[1, 2, 3][1:][0]
{'a': {'b': [1, 2]}}.a.b[1]
{'a': 1}['a']
{'items': 5}.items
{'items': 5}['items']
{'keys': 1}.keys()|list
d.a.upper()
(s ~ '!')|upper
s|upper ~ '!'
-n|abs
(-n)|abs
1 + 2|string|length
'a' ~ 1 + 2
2 * 'ab'|upper
n in [1, 7] and 'a' in d
'%s' % n ~ '%d' % f
[x for x in l]
l|list|length > 2
l.0
d.C[1].k
d.C.1.k
'a b'.split().0
s[n]
s[-n]
(n, f)|list
[n, f]|map('int')|list
'abc'|list|join(',')
[['a', 1], ['b', 2]]|map('join', '=')|join('&')
'a,b'.split(',')|map('trim')|list
people|map(attribute='name')|map('capitalize')|sort|join(' ')
people|selectattr('age', 'ge', 2)|map(attribute='name')|join('/')
people[0].name.upper()[0]
(people|first).name
people|length is divisibleby 3
0.5|round|int
1e3|int
'{:.1f}'.format(0.25)
0.1 * 3
1 / 3
2 / 3 * 3
1e308 * 10
5 // 0.3
-5 % 0.3
7.0 // 2
7 % 2.5
10 ** 20
10 ** 30
2 ** 127
3.0 ** 2
4 ** 0.5
0 ** 0
1 == 1 == true
'abc' == 'abc'|lower
u|lower|upper
'İ'|lower|length
'ﬁ'|upper
'ß'|title
'ŉ'|capitalize
'a\u0301'|length
'😀'|length
'😀'[0]
'é' < 'z'
'a' < 'B'
['b', 'a', 'C']|sort|join
['é', 'z', 'a']|sort
[true, false]|sort
[2, 1.5, true]|sort
[none, 1]|sort
[[2, 'b'], [1, 'a']]|sort
['a10', 'a9']|sort
"a'b" ~ 'c"d'
["a'b", 'c"d', 'e\'f"g']
{'k': "a'b"}
['\u00ad', '\u0300', '\ue000', '\U0001F600', '\x7f', '\x1b', '\u2028']
"""

STATEMENTS = [
    "{% for x in l %}{{ x }}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}",
    "{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
    "{% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }} {% endfor %}",
    "{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }} {% endfor %}",
    "{% for x in l %}{{ loop.depth }}{{ loop.depth0 }}{% for y in l %}{{ loop.depth }}{% endfor %} {% endfor %}",
    "{% for x in [] %}x{% else %}empty{% endfor %}",
    "{% for x in missing %}x{% else %}empty{% endfor %}",
    "{% for x in no %}x{% endfor %}",
    "{% for x in n %}x{% endfor %}",
    "{% for x in 'abc' %}{{ x }}-{% endfor %}",
    "{% for x in d %}{{ x }} {% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d|items %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d|dictsort %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in d.keys() %}{{ k }}{% endfor %}{% for v in d.values() %}{{ v }}{% endfor %}",
    "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in [[1, 2], 'xy'] %}{{ a }}{{ b }} {% endfor %}",
    "{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}",
    "{% for a, b in [[1]] %}{{ a }}{% endfor %}",
    "{% for x in l if x > 1 %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% endfor %}",
    "{% for x in l if x > 9 %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in l %}{% if loop.first %}{% continue %}{% endif %}{{ loop.index }}{% else %}e{% endfor %}",
    "{% for x in l|reverse %}{{ x }}{% endfor %}",
    "{% for x in l|map('string') %}{{ x }}{{ loop.last }}{% endfor %}",
    "{% for x in people|selectattr('age', 'eq', 3) %}{{ x.name }}{{ loop.length }}{% endfor %}",
    "{% set g = l|map('string') %}{% for x in g %}{{ x }}{% endfor %}|{% for x in g %}{{ x }}{% endfor %}",
    "{% set g = people|selectattr('age') %}{{ g|list|length }}{{ g|list|length }}",
    "{% for x in range(3) %}{% for y in range(x) %}{{ x }}{{ y }}{{ loop.index }} {% endfor %}{% endfor %}",
    "{% for item in [{'v': 1, 'c': [{'v': 2, 'c': []}]}] recursive %}{{ item.v }}[{{ loop(item.c) }}]{{ loop.depth }}{% endfor %}",
    "{% for item in [[1, [2]], [3]] recursive %}{% if item is iterable %}({{ loop(item) }}){% else %}{{ item }}{% endif %}{% endfor %}",
    "{% set x = 1 %}{% for i in l %}{% set x = x + i %}{% endfor %}{{ x }}",
    "{% set ns = namespace(x=1) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace() %}{% set ns.a = 1 %}{{ ns.a }}{{ ns.b }}",
    "{% set ns = namespace(l=[]) %}{% for i in l %}{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.l }}",
    "{% set ns = namespace(a=1) %}{% set ns['b'] = 2 %}{{ ns.b }}",
    "{% if true %}{% set y = 1 %}{% endif %}{{ y }}",
    "{% if false %}{% set y = 1 %}{% endif %}{{ y }}",
    "{% for i in l %}{% if loop.first %}{% set y = i %}{% endif %}{{ y }}{% endfor %}",
    "{% for i in l %}{% endfor %}{{ i }}",
    "{% set i = 'o' %}{% for i in l %}{% endfor %}{{ i }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set a, b = [3, 4] %}{{ a }}{{ b }}",
    "{% set a = 1, 2 %}{{ a }}",
    "{% set x %}a{{ n }}b{% endset %}[{{ x }}]",
    "{% set x | upper %}abc{% endset %}{{ x }}",
    "{% set x | replace('a', 'b') | upper %}abc{% endset %}{{ x }}",
    "{% set x %}<{% endset %}{{ x|e }}{{ x + '<' }}",
    "{% set n = n + 1 %}{{ n }}",
    "{% macro m(a, b=2) %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=4, a=5) }}{{ m() }}",
    "{% macro m(a, b='x' ~ 'y') %}{{ a }}{{ b }}{% endmacro %}{{ m('q')|upper }}",
    "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}",
    "{% macro m(a) %}{{ a }}{{ varargs|join('-') }}{% endmacro %}{{ m(1, 2, 3) }}{{ m(1) }}",
    "{% macro m(a) %}{{ a }}{% for k, v in kwargs.items() %}{{ k }}{{ v }}{% endfor %}{% endmacro %}{{ m(1, b=2, c=3) }}{{ m(c=1, a=2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, b=2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}",
    "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}in{% endcall %}",
    "{% macro m() %}<{{ caller(1, 2) }}>{% endmacro %}{% call(a, b) m() %}{{ a }}-{{ b }}{% endcall %}",
    "{% macro m(x) %}{{ x }}{{ caller() if caller }}{% endmacro %}{{ m(1) }}{% call m(2) %}c{% endcall %}",
    "{% macro m() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ m() }}",
    "{% set x = 1 %}{% macro m() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ m() }}",
    "{% macro m() %}{% set x = 5 %}{{ x }}{% endmacro %}{{ m() }}{{ x }}",
    "{% macro fact(k) %}{{ k * (fact(k - 1)|int) if k > 1 else 1 }}{% endmacro %}{{ fact(5) }}",
    "{% macro m(a) %}{{ m.name }}{{ m.arguments }}{{ a }}{% endmacro %}{{ m.name }}",
    "{{ m(1) }}{% macro m(a) %}{{ a }}{% endmacro %}",
    "{% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}",
    "{% for x in l %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% macro m(messages) %}{{ messages|length }}{% endmacro %}{{ m([1]) }}",
    "{% macro m(x) -%} {{ x }} {%- endmacro %}[{{ m(1) }}]",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}",
    "{% with a = n %}{% with n = 1 %}{{ a }}{{ n }}{% endwith %}{% endwith %}{{ n }}",
    "{% filter upper %}a{{ s }}b{% endfilter %}",
    "{% filter replace('a', 'b')|upper %}banana{% endfilter %}",
    "{% filter indent(2) %}a\nb{% endfilter %}",
    "{% raw %}{{ x }}{% y %}{% endraw %}",
    "{%- raw -%}  {{ x }}  {%- endraw -%}  z",
    "a {# comment {{ x }} #} b",
    "a\n{# comment #}\nb",
    "a\n  {# comment #}  \nb",
    "  {% if true %}\n  x\n  {% endif %}\n  y\n",
    "  {%- if true %}\n  x\n  {%- endif %}\n  y\n",
    "  {%+ if true %}\n  x\n  {%+ endif %}\n  y\n",
    "{% if true +%}\nx{% endif %}",
    "{% if true -%}\n  x  \n{%- endif %} y",
    "a  {{- ' b ' -}}  c",
    "a\n{{ 'b' }}\nc\n",
    "a\n\n",
    "\n\na",
    "a\r\nb\r\n{% if true %}\r\nc{% endif %}",
    "{{ 'a\r\nb'|length }}",
    "x {% if 1 %}y{% endif %} z",
    "\t{% if 1 %}\ty\t{% endif %}\tz",
    "{{ '{{' }}{{ '}}' }}{{ '{%' }}",
    "{{ '#}' }}{# #}{{ \"{#\" }}",
    "# for x in l\n{{ n }}\n# endfor",
    "## x\n{{ n }}",
    "{% if n > 3 %}a{% elif n %}b{% else %}c{% endif %}",
    "{% if missing %}a{% elif e %}b{% else %}c{% endif %}",
    "{% if not messages[2].content %}none{% endif %}",
    "{% if messages[0]['role'] == 'system' %}{{ messages[1:]|length }}{% endif %}",
    "{% for m in messages[1:] %}{{ m.role }}{{ m['content'] }}{% endfor %}",
    "{% for m in messages %}{{ m }}{% endfor %}",
    "{% for m in messages %}{{ m.role + ':' + m.content|default('-', true) }} {% endfor %}",
    "{% for m in messages %}{{ m.content | trim }}|{% endfor %}",
    "{% do l %}x",
    "{% generation %}{{ n }}{% endgeneration %}",
    "{% generation %}{% set q = 1 %}{% endgeneration %}{{ q }}",
    "{% for x in l %}{% generation %}{{ x }}{{ loop.index }}{% endgeneration %}{% endfor %}",
    "{%- generation -%} a {%- endgeneration -%}",
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set _ = c.reset() %}{{ c.next() }}",
    "{% set j = joiner(', ') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}",
    "{% set j = joiner() %}{{ j() }}a{{ j() }}b",
    "{% autoescape true %}{{ '<' }}{% endautoescape %}",
    "{% autoescape false %}{{ '<' }}{% endautoescape %}",
    "{% block a %}x{% endblock %}",
    "{% include 'x' %}",
    "{% extends 'x' %}",
    "{% import 'x' as y %}",
    "{% trans %}x{% endtrans %}",
    "{% nosuch %}",
    "{% if %}x{% endif %}",
    "{% for x in l %}",
    "{{ n",
    "{{ n }",
    "{% endif %}",
    "{{ 1 + }}",
    "{% set true = 1 %}",
    "{% set x = l.append(1) %}{{ l }}",
    "{% set _ = d.update({'z': 1}) %}{{ d }}",
    "{% if false %}{{ l.append(1) }}{% endif %}ok",
    "{% if false %}{{ 1|nosuch }}{% endif %}ok",
    "{% if false %}{{ 1 is nosuch }}{% endif %}ok",
    "{{ 'ok' if true else (1|nosuch) }}",
    "{% set x = missing %}{{ x is defined }}",
    "{% set x = none %}{{ x is defined }}{{ x }}",
    "{% set dd = {} %}{% set dd = dict(dd, a=1) %}{{ dd }}",
    "{% set dd = dict(d, **{'q': 2}) %}{{ dd.q }}",
    "{{ dict(**d).a }}",
    "{{ '{} {}'.format(*[1, 2]) }}",
    "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 1, 'b': 2}) }}",
    "{% set f = 'x'.upper %}{{ f() }}",
    "{{ loop.index }}",
    "{% for x in l %}{% set outer = loop %}{% for y in 'ab' %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}",
    "{% for x in l %}{{ loop }}{% endfor %}",
    "{{ namespace(a=1) }}",
    "{{ range(3) }}{{ dict }}",
    "{{ joiner() }}",
    "{% set x = 'a' %}{{ x }}{% set x = x ~ 'b' %}{{ x }}",
    "{% for c in 'aé日' %}{{ loop.index }}{{ c }}{% endfor %}",
    "{% set l2 = l %}{{ l2 is sameas l }}{{ l2 == l }}",
    "{% for x in l %}{{ ', ' if not loop.first }}{{ x }}{% endfor %}",
    "{{ bos_token }}x{{ eos_token }}",
    "{{ 'a' -}}   \n  b",
    "{{- 'a' }}\n{%- set x = 1 %}\n{{ x }}",
    "{% for k, v in {'a': 1}.items() %}{{ k ~ v }}{% endfor %}",
    "{% set s2 = s.split(' ') %}{{ s2[0] }}{{ s2[-1] }}{{ s2|length }}",
    "{{ messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|map('trim')|join(',') }}",
    "{{ messages|map(attribute='role')|unique|sort|join(',') }}",
    "{% set ns = namespace(found=false) %}{% for m in messages if m.role == 'user' %}{% set ns.found = true %}{% endfor %}{{ ns.found }}",
    "{{ (messages|last).role }}{{ messages[-1].role }}{{ messages[::-1][0].role }}",
    "{{ messages[0].items()|list }}",
    "{{ messages[0]|tojson }}{{ messages|tojson(indent=1) }}",
    "{% set a = [] %}{{ a is defined and a }}{{ a or 'none' }}",
    "{% for x in (1, 2) %}{{ x }}{% endfor %}{% for x in 1, 2 %}{{ x }}{% endfor %}",
    "{% set x = {'a': [1, 2, {'b': 'c'}]} %}{{ x.a[2].b }}{{ x['a'][-1]['b'] }}{{ x }}",
    "{{ '%05.1f|%-6s|%+d' % (2.345, 'ab', 5) }}",
    "{{ 'x' is in ['x'] }}{{ 'x' is not in ['x'] }}",
    "{% if 'a' in d and d['a'] is string and d.a | length > 0 %}yes{% endif %}",
    "{% set x = 5 %}{% if x is divisibleby 5 and not x is even %}y{% endif %}",
    "{{ [1, 2, 3] | select('odd') | map('string') | join('+') }}",
    "{% set rest = messages[1:] if messages[0].role == 'system' else messages %}{{ rest|length }}",
    "{{ 'abc' | replace('b', '') | length }}{{ none is none }}{{ (none or 'x') }}",
    "{%set x=1%}{{x}}{%if x%}y{%endif%}",
    "{% set x = 1 -%}   {{ x }}",
    "{% macro p(x) %}{% if x is mapping %}{{ '{' }}{% for k, v in x|items %}{{ k }}:{{ p(v) }}{% if not loop.last %},{% endif %}{% endfor %}{{ '}' }}{% elif x is string %}'{{ x }}'{% else %}{{ x }}{% endif %}{% endmacro %}{{ p({'a': {'b': 'c'}, 'd': 1}) }}",
    # Neighbors of what a user has met.
    "{% raw %}\nx\n{% endraw %}\ny",
    "a\n  {% raw %}\n  {{ x }}\n  {% endraw %}\nb",
    "{%- raw -%}\n x \n{%- endraw -%}\n b",
    "{% raw %}x{% endraw %}\ny",
    "{% raw -%}\n x{% endraw %}",
    "a {%- raw %}\n x{%- endraw %} \nb",
    "{% raw %}\n\nx{% endraw %}",
    "{% raw %}{% endraw %}",
    "{% raw %}\n{% endraw %}\n\nz",
    "  {% raw %} {% if %} {% endraw %}  \n z",
    "{% raw %}{{ '{% endraw' }}{% endraw %}q",
    "{%+ raw %}\nx\n  {%+ endraw %}\ny",
    "{% raw %}\n{# c #}\n{% endraw +%}\ny",
    "{% if true %}\n{% raw %}\nq\n{% endraw %}\n{% endif %}\nw",
    "{%raw%}\na{%endraw%}\nb",
    "{% for i in l %}\n{% raw %}\n-\n{% endraw %}\n{% endfor %}",
    "{{ '{% raw %}' }}\nx{% raw %}\ny{% endraw %}",
    "{# {% raw %} #}\nx",
    "{% raw %}\n{% raw %}\n{% endraw %}\nx",
    "{% for x in [{'v': 1, 'c': [{'v': 2}]}, {'v': 3}] recursive %}{{ x.v }}{{ loop(x.c) if x.c }}{% endfor %}",
    "{% for x in [{'v': 1, 'c': [{'v': 2}]}, {'v': 3}] recursive %}{{ x.v }}{{ loop(x.c) if x.c else '.' }}{% endfor %}",
    "{% for x in [{'v': 1, 'c': [{'v': 2}]}, {'v': 3}] recursive %}{{ x.v }}{% set z = loop(x.c) if x.c else 'q' %}{{ z }}{% endfor %}",
    "{% for x in [{'v': 1, 'c': [{'v': 2}]}, {'v': 3}] recursive %}{{ x.v }}{{ loop(x.c) or 'n' }}{% endfor %}",
    "{% set n = namespace(d) %}{{ n.a }}{{ n.b }}",
    "{% set n = namespace({'x': 1}) %}{{ n.x }}",
    "{% set n = namespace(d, c=3) %}{{ n.a }}{{ n.c }}",
    "{% set n = namespace([('p', 1), ('q', 2)]) %}{{ n.p }}{{ n.q }}",
    "{% set n = namespace() %}{{ n.x is defined }}",
    "{% set n = namespace(d) %}{% set n.a = 9 %}{{ n.a }}{{ d.a }}",
    "{% set n = namespace(dict(a=1), a=2) %}{{ n.a }}",
    "{% set n = namespace(1) %}x",
    "{% set n = namespace('ab') %}x",
    "{% set n = namespace({1: 2}) %}{{ n.a }}",
    "{% set n = namespace(d, d) %}",
    "{% set n = namespace(d.items()) %}{{ n.a }}",
    "{% set n = namespace(none) %}",
    "{% with b=2, c=b %}{{ b }}{{ c }}{% endwith %}",
    "{% set b = 1 %}{% with b=2, c=b %}{{ b }}{{ c }}{% endwith %}{{ b }}",
    "{% with a=n, b=a %}[{{ b }}]{% endwith %}",
    "{% with a=1 %}{% with a=2, b=a %}{{ a }}{{ b }}{% endwith %}{{ a }}{% endwith %}",
    "{% with %}{% set z = 1 %}{{ z }}{% endwith %}{{ z }}",
    "{% with a, b = 1, 2 %}{{ a }}{{ b }}{% endwith %}",
    "{% with a = l, b = a %}{{ b|length }}{% endwith %}",
    "{% with n=n+1, m=n %}{{ n }}{{ m }}{% endwith %}{{ n }}",
    "{% with a=1, b=2 %}{{ a+b }}{% endwith %}",
    "{% with a=(1,2), b=3 %}{{ a }}{{ b }}{% endwith %}",
    "{% with b='x', c=b ~ 'y' %}{{ c }}{% endwith %}",
    "{% with b=1, c=[b, n] %}{{ c|length }}{{ c[1] }}{% endwith %}",
    "{% with b=1, c={'k': b} %}{{ c.k is defined }}{% endwith %}",
    "{% with (a, b)=(1, 2), c=a %}{{ a }}{{ c is defined }}{% endwith %}",
    "{% with f=3 %}{% macro m() %}{{ f }}{% endmacro %}{{ m() }}{% endwith %}",
    "{{ [none, none]|sort }}",
    "{{ [none]|sort }}",
    "{{ [1, none]|sort }}",
    "{{ [none, none]|min }}",
    "{{ [none]|min }}",
    "{{ [none,none]|unique|list }}",
    "{{ [{}, {}]|sort }}",
    "{{ [[none],[none]]|sort }}",
    "{{ [[1,none],[1,none]]|sort }}",
    "{{ [true,false]|sort }}",
    "{{ ['b','A']|sort }}",
    "{{ [d, d]|sort }}",
    "{{ [undefined_x, undefined_y]|sort }}",
    "{{ [1,'a']|sort }}",
    "{{ [(1,none),(1,none)]|sort }}",
    "{{ [none, none]|max }}",
    "{{ [{'a':none},{'a':none}]|sort(attribute='a') }}",
    "{{ [{'a':1},{'a':none}]|sort(attribute='a') }}",
    "{{ [{'a':none},{'a':none}]|groupby('a')|list|length }}",
    "{{ {'x':none,'y':none}|dictsort(by='value') }}",
    "{{ {'x':none}|dictsort(by='value') }}",
    "{{ [l, l]|sort }}",
    "{{ [[2],[1]]|sort }}",
    "{{ [none, none] == [none, none] }}",
    "{{ none < none }}",
    "{{ [none] < [none] }}",
    "{{ [none, 1] < [none, 2] }}",
    "{{ {} < {} }}",
    "{{ [{}] < [{}] }}",
    "{{ [[1,2],[1]]|sort }}",
    "{{ [1.5, 1, true]|sort }}",
    "{{ [none, none]|sum }}",
    "{{ [[none, 2], [none, 1]]|sort }}",
    "{{ [range(2), range(2)]|sort }}",
    "{{ ['a', none]|sort }}",
    "{{ [none, none]|sort(reverse=true) }}",
    "{{ (none, none)|sort }}",
    "{{ ['', none]|unique|list }}",
]

# Lists that a template has made change, as in jinja2's other sandbox, for which llama.cpp's templates are written.
LISTS = [
    "{% set a = [] %}{% set _ = a.append(1) %}{{ a }}",
    "{% set a = [] %}{% set b = a %}{% set _ = a.append(1) %}{{ b }}",
    "{% set n = namespace(x=[]) %}{% for i in l %}{% set _ = n.x.append(i) %}{% endfor %}{{ n.x }}{{ n.x.pop(0) }}{{ n.x.pop() }}{{ n.x }}",
    "{% for i in l %}{% set a = [] %}{% set _ = a.append(i) %}{{ a }}{% endfor %}",
    "{% set a = [1,2,3,2] %}{{ a.remove(2) }}{{ a }}{{ a.insert(1, 'x') }}{{ a }}{{ a.extend([5,6]) }}{{ a }}{{ a.reverse() }}{{ a }}{{ a.clear() }}{{ a }}",
    "{% set a = [3,1,2] %}{{ a.sort() }}{{ a }}{{ a.sort(reverse=true) }}{{ a }}",
    "{% set a = [1] %}{{ a.insert(-5, 0) }}{{ a.insert(99, 9) }}{{ a.insert(-1, 5) }}{{ a }}",
    "{% set a = [] %}{{ a.pop() }}",
    "{% set a = [1] %}{{ a.pop(3) }}",
    "{% set a = [1] %}{{ a.remove(7) }}",
    "{% set a = [[], []] %}{% set _ = a[0].append(1) %}{{ a }}",
    "{% set a = s.split() %}{% set _ = a.append('x') %}{{ a|join(',') }}",
    "{% set a = [1]+[2] %}{% set _ = a.append(3) %}{{ a }}",
    "{% set a = l|list %}{% set _ = a.append(3) %}{{ a }}{{ l }}",
    "{% set a = [1,2] %}{% set b = a.copy() %}{% set _ = b.append(3) %}{{ a }}{{ b }}",
    "{% set a = {'k': []} %}{% set _ = a.k.append(1) %}{{ a }}",
    "{% macro m(x=[]) %}{% set _ = x.append(1) %}{{ x }}{% endmacro %}{{ m([7]) }}",
    "{% set a = l[:2] %}{% set _ = a.append(0) %}{{ a }}",
    "{% set a = [2,1] %}{{ a == [2,1] }}{{ a in [[2,1]] }}{{ a|sort }}{{ a[0] }}{{ a[-1] }}{{ a[::-1] }}{{ a|length }}{{ a is sequence }}{{ a|tojson }}{{ a is iterable }}{{ a is string }}{{ a|first }}{{ a ~ '' }}",
    "{% set a = [] %}{{ 'e' if not a else 'f' }}{% set _ = a.append(0) %}{{ 'e' if not a else 'f' }}",
    "{% set a = [] %}{% set _ = a.extend(a) %}{% set _ = a.extend('ab') %}{% set _ = a.extend(a) %}{{ a }}",
    "{% set a = ['x', s] %}{% set _ = a.append(s) %}{{ a.remove(s) }}{{ a }}{{ a.index('x') }}{{ a.count(s) }}",
    "{% set a = [1, 'b', none] %}{% set _ = a.append(a|length) %}{% for x in a %}{{ loop.index }}{{ x }}{% endfor %}",
]


def main():
    cases = []
    sources = ["{{ " + line + " }}" for line in EXPRESSIONS.replace("\\\n", "\\\0").strip().split("\n")]
    for source in [source.replace("\0", "\n") for source in sources] + STATEMENTS + LISTS:
        try:
            mutable = SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
            template = (mutable.from_string if source in LISTS else chat_template_utils._compile_jinja_template)(source)
            variables = json.loads(json.dumps(VARIABLES))
            text = template.render(bos_token="<s>", eos_token="</s>", **variables)
            text.encode()
            if " at 0x" in text:
                raise ValueError("the text holds an address")
            cases.append([source, text])
        except Exception as error:
            cases.append([source, None, f"{type(error).__name__}: {error}".split("\n")[0][:100]])
    assert len({case[0] for case in cases}) == len(cases), "a case that occurs twice"
    print('{"variables": ' + json.dumps(VARIABLES) + ',\n"cases": [')
    print(",\n".join(json.dumps(case) for case in cases))
    print("]}")


if __name__ == "__main__":
    sys.exit(main())
