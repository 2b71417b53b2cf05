#!/usr/bin/env python3
"""Translates nvcc's PTX to C++ for the driver of tests/cuda_shim: a function an entry, a local variable a register.

Usage: translate.py kernels.ptx >kernels.cpp

The meaning of the instructions is in runtime.h and memory.h. An instruction, a modifier, an operand or a directive that is
not known here is an error that names it.
"""
import re
import sys

CPP = {'b8': 'uint8_t', 'u8': 'uint8_t', 's8': 'int8_t', 'b16': 'uint16_t', 'u16': 'uint16_t', 's16': 'int16_t',
       'b32': 'uint32_t', 'u32': 'uint32_t', 's32': 'int32_t', 'b64': 'uint64_t', 'u64': 'uint64_t', 's64': 'int64_t',
       'f32': 'float', 'f64': 'double', 'pred': 'bool'}
# Special registers are mov's alone.
SPECIAL = {f'%{name}.{axis}': f'shim::state.{field}.{axis}' for axis in 'xyz'
           for name, field in (('tid', 'thread'), ('ntid', 'threads'), ('ctaid', 'block'), ('nctaid', 'blocks'))}
COMPARE = {'eq': '==', 'ne': '!=', 'lt': '<', 'le': '<=', 'gt': '>', 'ge': '>='}
INT, FLOAT = '[su](?:16|32|64)', 'f32|f64'

OPERATIONS = []


class Unknown(Exception):
    pass


def operation(pattern):
    """Registers the translation of the opcodes that match `pattern` as a whole: it gets the kernel, the operands and the groups."""
    def register(function):
        OPERATIONS.append((re.compile(pattern), function))
        return function
    return register


def bits(type_):
    return 1 if type_ == 'pred' else int(type_[1:])


def unsigned(type_):
    return f'u{bits(type_)}'


def fields(text):
    """Operands, divided at commas outside of brackets."""
    return [part.strip() for part in re.split(r',(?![^\[{]*[\]}])', text)] if text else []


def members(vector):
    """Members of `{a, b}`, or the operand itself."""
    return fields(vector[1:-1]) if vector.startswith('{') else [vector]


class Kernel:
    """Registers and shared memory of an entry."""

    def __init__(self, name, body):
        self.name, self.at = name, ''
        self.types = {prefix: type_ for type_, prefix in re.findall(r'\.reg \.(\w+) \s*%([a-z]+)<\d+>;', body)}

    def type(self, register):
        """Type with which a register was declared, or None."""
        match = re.fullmatch(r'%([a-z]+)\d+', register)
        return self.types.get(match[1]) if match else None

    def read(self, operand, type_, wider=False):
        """Expression for an operand that is read as `type_`. With `wider`, a wider register gives its low bits."""
        own = self.type(operand)
        if own:
            if bits(own) != bits(type_) and not (wider and bits(own) > bits(type_)) or (own == 'pred') != (type_ == 'pred'):
                raise Unknown(f'{operand}, a .{own} register, as .{type_}')
            name = operand[1:]
            if own[0] == 'f' and type_[0] != 'f' or own[0] != 'f' and type_[0] == 'f':
                return f'bits<{CPP[type_]}>({name})'
            return name if own == type_ else f'({CPP[type_]})({name})'
        if type_ == 'pred' and operand in ('0', '1', '-1'):
            return str(operand != '0').lower()
        if type_ == 'f32' and re.fullmatch(r'0[fF][0-9a-fA-F]{8}', operand):
            return f'bits<float>(0x{operand[2:]}u)'
        if type_ == 'f64' and re.fullmatch(r'0[dD][0-9a-fA-F]{16}', operand):
            return f'bits<double>(0x{operand[2:]}ull)'
        if type_[0] in 'bus' and re.fullmatch(r'-?(0x[0-9a-fA-F]+|\d+)', operand):
            return f'({CPP[type_]})({operand}ll)'
        raise Unknown(f'operand {operand} as .{type_}')

    def write(self, register, expression, type_, wider=False):
        """Statement that assigns an expression of `type_`. With `wider`, a wider register takes it extended by its sign or with 0."""
        own = self.type(register)
        if not own or bits(own) != bits(type_) and not (wider and bits(own) > bits(type_)):
            raise Unknown(f'.{type_} into {register}')
        if own[0] == 'f' and type_[0] != 'f' or own[0] != 'f' and type_[0] == 'f':
            if bits(own) != bits(type_):
                raise Unknown(f'.{type_} into {register}')
            return f'{register[1:]} = bits<{CPP[own]}>(({CPP[type_]})({expression}));'
        return f'{register[1:]} = ({CPP[own]})({CPP[type_]})({expression});'

    def predicate(self, operand):
        return '!' + self.read(operand[1:], 'pred') if operand.startswith('!') else self.read(operand, 'pred')

    def address(self, operand):
        """Base and offset of `[base+offset]` as an expression."""
        match = re.fullmatch(r'\[\s*(%?[\w$]+)\s*(?:\+\s*(-?\d+))?\s*\]', operand)
        if not match:
            raise Unknown(f'address {operand}')
        base, offset = match[1], int(match[2] or 0)
        if base == f'{self.name}_param_0':
            return f'parameter + {offset}'
        if base == 'shared':
            return f'kSharedBase + ({offset})'
        if self.type(base) not in ('b32', 'b64'):
            raise Unknown(f'address {operand}')
        return f'{base[1:]} + ({offset})'


# ---- moves and memory

@operation(r'mov\.([bus](?:16|32|64)|f32|f64|pred)')
def _(k, a, type_):
    if type_ == 'b32' and a[1].startswith('{'):
        low, high = (k.read(x, 'u16') for x in members(a[1]))
        return k.write(a[0], f'(uint32_t){high} << 16 | {low}', 'u32')
    if a[1] in SPECIAL:
        return k.write(a[0], SPECIAL[a[1]], type_)
    if a[1] == f'{k.name}_param_0':
        return k.write(a[0], 'parameter', type_)
    if a[1] == 'shared':
        return k.write(a[0], 'kSharedBase', type_)
    return k.write(a[0], k.read(a[1], type_), type_)


# Global memory is where generic addresses say it is; there are no others, because `cvta.shared` is not known.
@operation(r'cvta\.to\.global\.u64')
def _(k, a):
    return k.write(a[0], k.read(a[1], 'u64'), 'u64')


@operation(r'(ld|st)(\.param|\.shared|\.global)?(\.nc)?(?:\.L1::no_allocate)?(\.v2|\.v4)?\.([bus](?:8|16|32|64)|f32|f64)')
def _(k, a, verb, space, constant, vector, type_):
    registers = members(a[0] if verb == 'ld' else a[1])
    address = k.address(a[1] if verb == 'ld' else a[0])
    if len(registers) != int((vector or '.v1')[2:]) or constant and (verb, space) != ('ld', '.global'):
        raise Unknown(f'{verb} of {a}')
    size = bits(type_) // 8 * len(registers)
    kind = 'kWrite' if verb == 'st' else 'kReadConstant' if constant else 'kRead'
    if space == '.param':
        if verb == 'st':
            raise Unknown('a write to a parameter')
        place = f'parameter_at({address}, {size}, parameter, kParameterBytes, {k.at})'
    elif space == '.shared':
        place = f'shared_at({address}, {size}, {kind}, {k.at})'
    else:
        place = f'global_at({address}, {size}, {kind}, {k.at})'
    if verb == 'ld':
        # The address comes first, because its register may be written.
        return f'auto* p = {place}; ' + ' '.join(
            k.write(r, f'get<{CPP[type_]}>(p, {i})', type_, wider=True) for i, r in enumerate(registers))
    return f'auto* p = {place}; ' + ' '.join(
        f'put<{CPP[type_]}>(p, {i}, {k.read(r, type_, wider=True)});' for i, r in enumerate(registers))


@operation(r'prefetch\.global\.L2')
def _(k, a):
    return f'prefetch({k.address(a[0])}, {k.at});'


@operation(r'cp\.async\.(ca|cg)\.shared\.global')
def _(k, a, level):
    if a[2:] not in (['16'], ['4'] if level == 'ca' else ['16']):
        raise Unknown(f'a copy of {a[2:]} bytes')
    return f'copy_async({k.address(a[0])}, {k.address(a[1])}, {a[2]}, {k.at});'


@operation(r'cp\.async\.commit_group')
def _(k, a):
    return 'copy_commit();'


@operation(r'cp\.async\.wait_group')
def _(k, a):
    return f'copy_wait({int(a[0])}, {k.at});'


# ---- arithmetic

@operation(rf'(add|sub)\.({INT})')
def _(k, a, verb, type_):
    u = unsigned(type_)
    return k.write(a[0], f'{k.read(a[1], u)} {"+" if verb == "add" else "-"} {k.read(a[2], u)}', u)


@operation(rf'(add|sub|mul|div)(\.rn)?\.({FLOAT})')
def _(k, a, verb, rounding, type_):
    if verb == 'div' and not rounding:
        raise Unknown('div without a rounding')
    sign = {'add': '+', 'sub': '-', 'mul': '*', 'div': '/'}[verb]
    return k.write(a[0], f'{k.read(a[1], type_)} {sign} {k.read(a[2], type_)}', type_)


@operation(r'mul\.lo\.([su](?:32|64))')
def _(k, a, type_):
    u = unsigned(type_)
    return k.write(a[0], f'{k.read(a[1], u)} * {k.read(a[2], u)}', u)


@operation(r'mul\.hi\.u64')
def _(k, a):
    return k.write(a[0], f'mul_hi({k.read(a[1], "u64")}, {k.read(a[2], "u64")})', 'u64')


@operation(r'mul\.wide\.([su])(16|32)')
def _(k, a, sign, size):
    wide = f'{sign}{2 * int(size)}'
    return k.write(a[0], ' * '.join(f'({CPP[wide]}){k.read(x, sign + size)}' for x in a[1:]), wide)


@operation(r'mad\.lo\.([su](?:32|64))')
def _(k, a, type_):
    u = unsigned(type_)
    return k.write(a[0], f'{k.read(a[1], u)} * {k.read(a[2], u)} + {k.read(a[3], u)}', u)


@operation(r'(div|rem)\.(u16|u32|u64)')
def _(k, a, verb, type_):
    return k.write(a[0], f'{verb}({k.read(a[1], type_)}, {k.read(a[2], type_)})', type_)


@operation(rf'fma\.rn\.({FLOAT})')
def _(k, a, type_):
    return k.write(a[0], f'std::fma({", ".join(k.read(x, type_) for x in a[1:])})', type_)


@operation(r'(fma\.rm|rcp\.rn|rcp\.approx\.ftz|ex2\.approx|ex2\.approx\.ftz|sqrt\.rn|min|max|max\.NaN|abs|neg|copysign)\.f32')
def _(k, a, verb):
    return k.write(a[0], f'{verb.replace(".", "_")}({", ".join(k.read(x, "f32") for x in a[1:])})', 'f32')


@operation(rf'(min|max)\.({INT})')
def _(k, a, verb, type_):
    return k.write(a[0], f'std::{verb}({k.read(a[1], type_)}, {k.read(a[2], type_)})', type_)


@operation(r'(min|max)\.f64')
def _(k, a, verb):
    return k.write(a[0], f'{verb}({k.read(a[1], "f64")}, {k.read(a[2], "f64")})', 'f64')


@operation(r'neg\.f64')
def _(k, a):
    return k.write(a[0], f'-{k.read(a[1], "f64")}', 'f64')


@operation(r'neg\.s(32|64)')
def _(k, a, size):
    return k.write(a[0], f'0 - {k.read(a[1], "u" + size)}', 'u' + size)


@operation(r'(and|or|xor)\.(b16|b32|b64|pred)')
def _(k, a, verb, type_):
    return k.write(a[0], f'{k.read(a[1], type_)} {dict(zip(("and", "or", "xor"), "&|^"))[verb]} {k.read(a[2], type_)}', type_)


@operation(r'not\.(b16|b32|b64|pred)')
def _(k, a, type_):
    return k.write(a[0], ('!' if type_ == 'pred' else '~') + k.read(a[1], type_), type_)


@operation(r'(shl|shr)\.([bus](?:16|32|64))')
def _(k, a, verb, type_):
    return k.write(a[0], f'{verb}({k.read(a[1], type_)}, {k.read(a[2], "u32")})', type_)


@operation(r'bfi\.b(32|64)')
def _(k, a, size):
    words, places = (', '.join(k.read(x, t) for x in v) for v, t in ((a[1:3], 'u' + size), (a[3:], 'u32')))
    return k.write(a[0], f'bfi<{CPP["u" + size]}>({words}, {places})', 'u' + size)


@operation(r'shf\.(l|r)\.wrap\.b32')
def _(k, a, side):
    return k.write(a[0], f'shf_{side}({", ".join(k.read(x, "u32") for x in a[1:])})', 'u32')


@operation(r'prmt\.b32')
def _(k, a):
    return k.write(a[0], f'prmt({", ".join(k.read(x, "u32") for x in a[1:])})', 'u32')


@operation(r'dp4a\.([su])32\.s32')
def _(k, a, sign):
    byte = 'uint8_t' if sign == 'u' else 'int8_t'
    return k.write(a[0], f'dp4a<{byte}>({", ".join(k.read(x, "u32") for x in a[1:])})', 'u32')


@operation(r'selp\.([bus](?:16|32|64)|f32|f64)')
def _(k, a, type_):
    return k.write(a[0], f'{k.predicate(a[3])} ? {k.read(a[1], type_)} : {k.read(a[2], type_)}', type_)


@operation(rf'setp\.(eq|ne|lt|le|gt|ge)\.(b16|b32|b64|{INT}|{FLOAT})')
def _(k, a, compare, type_):
    x, y = k.read(a[1], type_), k.read(a[2], type_)
    # Alone in being true of NaN in C++.
    ordered = f'!unordered({x}, {y}) && ' if compare == 'ne' and type_[0] == 'f' else ''
    return k.write(a[0], f'{ordered}{x} {COMPARE[compare]} {y}', 'pred')


@operation(rf'setp\.(nan|num)\.({FLOAT})')
def _(k, a, which, type_):
    negation = '!' if which == 'num' else ''
    return k.write(a[0], f'{negation}unordered({k.read(a[1], type_)}, {k.read(a[2], type_)})', 'pred')


@operation(rf'setp\.(eq|ne|lt|le|gt|ge)u\.({FLOAT})')
def _(k, a, compare, type_):
    x, y = k.read(a[1], type_), k.read(a[2], type_)
    return k.write(a[0], f'unordered({x}, {y}) || {x} {COMPARE[compare]} {y}', 'pred')


# ---- conversions

@operation(r'cvt\.([su](?:8|16|32|64))\.([su](?:8|16|32|64))')
def _(k, a, to, from_):
    return k.write(a[0], k.read(a[1], from_, wider=True), to, wider=True)


@operation(rf'cvt\.rn\.({FLOAT})\.({INT}|[su]8)')
def _(k, a, to, from_):
    return k.write(a[0], k.read(a[1], from_, wider=True), to)


@operation(r'cvt\.(rn\.f32\.f64|rni\.f32\.f32|rni\.f64\.f64|rzi\.f32\.f32|sat\.f32\.f32|rzi\.[su]32\.f32|rzi\.u64\.f64|f64\.f32)')
def _(k, a, name):
    to, from_ = name.split('.')[-2:]
    return k.write(a[0], f'cvt_{name.replace(".", "_")}({k.read(a[1], from_)})', to)


@operation(r'cvt\.rna\.tf32\.f32')
def _(k, a):
    return k.write(a[0], f'to_tf32({k.read(a[1], "f32")})', 'u32')


@operation(r'cvt\.rn\.f16\.f32')
def _(k, a):
    return k.write(a[0], f'to_half({k.read(a[1], "f32")})', 'u16')


@operation(r'cvt\.rn\.f16x2\.f32')
def _(k, a):
    return k.write(a[0], f'(uint32_t)to_half({k.read(a[1], "f32")}) << 16 | to_half({k.read(a[2], "f32")})', 'u32')


@operation(r'fma\.rn\.f16x2')
def _(k, a):
    return k.write(a[0], f'fma_halves({", ".join(k.read(x, "u32") for x in a[1:])})', 'u32')


@operation(r'cvt\.f32\.f16')
def _(k, a):
    return k.write(a[0], f'from_half({k.read(a[1], "b16")})', 'f32')


# ---- threads together

@operation(r'bar\.sync')
def _(k, a):
    if a != ['0']:
        raise Unknown(f'a barrier with operands {a}')
    return f'block_barrier({k.at});'


@operation(r'bar\.warp\.sync')
def _(k, a):
    return f'warp_barrier({k.read(a[0], "u32")}, {k.at});'


@operation(r'shfl\.sync\.(bfly|idx|up|down)\.b32')
def _(k, a, mode):
    register, _, inside = a[0].partition('|')
    words = ', '.join(k.read(x, 'u32') for x in a[1:])
    text = f'const Shuffled s = shuffle(kShuffle_{mode}, {words}, {k.at}); {k.write(register, "s.word", "u32")}'
    return f'{text} {k.write(inside, "s.inside", "pred")}' if inside else text


@operation(r'redux\.sync\.(min|max)\.u32')
def _(k, a, verb):
    word, lanes = (k.read(x, 'u32') for x in a[1:])
    return (f'uint32_t v = {word}; for (uint32_t far = 16; far; far /= 2) '
            f'v = std::{verb}(v, shuffle(kShuffle_bfly, v, far, 31, {lanes}, {k.at}).word); {k.write(a[0], "v", "u32")}')


@operation(r'(?:membar\.gl|fence\.(?:acq_rel|sc)\.gpu)')
def _(k, a):
    return 'fence();'


@operation(r'atom(?:\.(relaxed|acquire|release|acq_rel))?(?:\.gpu)?(?:\.global)?\.add\.u32')
def _(k, a, order):
    return k.write(a[0], f'atomic_add({k.address(a[1])}, {k.read(a[2], "u32")}, k_{order or "relaxed"}, {k.at})', 'u32')


@operation(r'atom\.relaxed\.cta\.shared\.add\.u32')
def _(k, a):
    return k.write(a[0], f'shared_add<uint32_t>({k.address(a[1])}, {k.read(a[2], "u32")}, {k.at})', 'u32')


@operation(r'red\.relaxed\.(gpu\.global|cta\.shared)\.add\.(u32|u64)')
def _(k, a, space, type_):
    verb = 'reduce_add' if space == 'gpu.global' else 'shared_add'
    return f'{verb}<{CPP[type_]}>({k.address(a[0])}, {k.read(a[1], type_)}, {k.at});'


@operation(r'mma\.sync\.aligned\.m16n8(k16\.row\.col\.f32\.f16\.f16|k8\.row\.col\.f32\.tf32\.tf32)\.f32')
def _(k, a, shape):
    d, left, right, c = map(members, a)
    if [len(v) for v in (d, left, right, c)] != [4, 4, 2, 4]:
        raise Unknown(f'operands {a}')
    words, sums = (', '.join(k.read(x, t) for x in v) for v, t in ((left + right, 'u32'), (c, 'f32')))
    return f'float d[4] = {{{sums}}}; mma{"_tf32" if "tf32" in shape else ""}({{{words}}}, d, {k.at}); ' + ' '.join(
        k.write(r, f'd[{i}]', 'f32') for i, r in enumerate(d))


@operation(r'mma\.sync\.aligned\.m16n8k(32|16)\.row\.col\.s32\.s8\.s8\.s32')
def _(k, a, depth):
    d, left, right, c = map(members, a)
    if [len(v) for v in (d, left, right, c)] != [4, int(depth) // 8, int(depth) // 16, 4]:
        raise Unknown(f'operands {a}')
    words, sums = (', '.join(k.read(x, t) for x in v) for v, t in ((left + right, 'u32'), (c, 's32')))
    return f'int32_t d[4] = {{{sums}}}; mma_bytes<{depth}>({{{words}}}, d, {k.at}); ' + ' '.join(
        k.write(r, f'd[{i}]', 's32') for i, r in enumerate(d))


@operation(r'ldmatrix\.sync\.aligned\.m8n8\.x([124])(\.trans)?(?:\.shared)?\.b16')
def _(k, a, n, transposed):
    registers = members(a[0])
    if len(registers) != int(n):
        raise Unknown(f'operands {a}')
    return f'uint32_t d[4]; load_matrices({k.address(a[1])}, {n}, {"true" if transposed else "false"}, d, {k.at}); ' + ' '.join(
        k.write(r, f'd[{i}]', 'u32') for i, r in enumerate(registers))


@operation(r'wgmma\.mma_async\.sync\.aligned\.m64n(16|32|64|256)k16\.f32\.f16\.f16')
def _(k, a, columns):
    d, left = members(a[0]), members(a[1])
    # Neither cleared sums, nor signs, nor a transposed operand.
    if [len(d), len(left), *a[3:]] != [int(columns) // 2, 4, '1', '1', '1', '0'] or {*map(k.type, d + left)} - {'f32', 'b32'}:
        raise Unknown(f'operands {a}')
    addresses = [', '.join(f'&{r[1:]}' for r in v) for v in (d, left)]
    return (f'float* const d[] = {{{addresses[0]}}}; uint32_t* const a[4] = {{{addresses[1]}}}; '
            f'products_start(d, {columns}, a, {k.read(a[2], "u64")}, {k.at});')


@operation(r'wgmma\.(fence|commit_group)\.sync\.aligned')
def _(k, a, verb):
    return f'products_{verb}({k.at});'


@operation(r'wgmma\.wait_group\.sync\.aligned')
def _(k, a):
    return f'products_wait({int(a[0])}, {k.at});'


@operation(r'fence\.proxy\.async\.shared::cta')
def _(k, a):
    return 'fence_async();'


@operation(r'griddepcontrol\.wait')
def _(k, a):
    return 'grid_wait();'


@operation(r'griddepcontrol\.launch_dependents')
def _(k, a):
    return ';'


# ---- control

@operation(r'bra(?:\.uni)?')
def _(k, a):
    return f'goto {label(a[0])};'


@operation(r'ret')
def _(k, a):
    return f'products_none({k.at}); return;'


def label(name):
    if not re.fullmatch(r'\$\w+', name):
        raise Unknown(f'label {name}')
    return name[1:]


def statement(kernel, text):
    """C++ of one statement, without its semicolon."""
    guard, text = re.fullmatch(r'(?:@(!?%p\d+)\s+)?(.*)', text).groups()
    opcode, _, operands = text.replace('\t', ' ').partition(' ')
    for pattern, function in OPERATIONS:
        if match := pattern.fullmatch(opcode):
            code = function(kernel, fields(operands.strip()), *match.groups())
            return f'if ({kernel.predicate(guard)}) {{ {code} }}' if guard else f'{{ {code} }}'
    raise Unknown(f'instruction {opcode}')


# Nothing that bears on the meaning: the first two are hints for the assembler and the debugger.
IGNORED = re.compile(r'\.pragma "(nounroll|used_bytes_mask \d+)"|\.reg .*')
LOCATION = re.compile(r'\.loc\s+(\d+) (\d+) \d+(?:, function_name \S+, inlined_at (\d+) (\d+) \d+)?')


def bare(line):
    return re.sub(r'(^|\s)//.*', '', line).strip()


def body_of(kernel, lines, first, files):
    """C++ of the lines of an entry, the first of which is line `first` of the file."""
    place, pending = '', ''
    for number, line in enumerate(lines, first):
        line = bare(line)
        if match := LOCATION.fullmatch(line):
            file, at, outer, outer_at = match.groups()
            place = f'{files[file]}:{at}' + (f' in {files[outer]}:{outer_at}' if outer else '')
            continue
        if match := re.fullmatch(r'(\$\w+):', line):
            yield f'{label(match[1])}:;'
            continue
        # An instruction of inline assembly is a line as well; only lists of operands may go on.
        pending = f'{pending} {line}'.strip()
        if not pending.endswith(';'):
            continue
        text, pending = pending[:-1].strip(), ''
        if IGNORED.fullmatch(text) or not text:
            continue
        kernel.at = f'"{place} (PTX {number})"'
        try:
            yield '    ' + statement(kernel, text)
        except Unknown as e:
            raise Unknown(f'line {number}, `{text}`: {e}') from None
    if pending:
        raise Unknown(f'a statement without an end: {pending}')


ENTRY = re.compile(r'''
    \.visible\s\.entry\s(?P<name>\w+)\(\s*
    \.param\s\.align\s\d+\s\.b8\s\w+_param_0\[(?P<bytes>\d+)\]\s*\)\s*
    \.maxntid\s(?P<threads>\d+),\s1,\s1\s*
    (?:\.minnctapersm\s\d+\s*)?
    \{\n(?P<body>.*?)\n\}\n''', re.S | re.X)
DIRECTIVE = re.compile(r'\.version \d+\.\d+|\.target \w+|\.address_size 64|\.file\s+\d+ ".*"|'
                       r'\.extern \.shared \.align 16 \.b8 shared\[\];')


def translate(text):
    files = {number: path.rsplit('/', 1)[-1] for number, path in re.findall(r'\.file\s+(\d+) "(.*)"', text)}
    yield '// Made by translate.py.'
    yield '#include "runtime.h"'
    rest = re.sub(r'\.section\s+\.debug_str\s*\{.*?\n\s*\}', '', ENTRY.sub('', text), flags=re.S)
    for line in map(bare, rest.splitlines()):
        if line and not DIRECTIVE.fullmatch(line):
            raise Unknown(f'directive {line}')
    before_sm_90 = int(re.search(r'\.target sm_(\d+)', text)[1]) < 90
    for entry in ENTRY.finditer(text):
        kernel = Kernel(entry['name'], entry['body'])
        yield f'static void {kernel.name}(const uint8_t* parameters) {{'
        yield f'    constexpr uint64_t kParameterBytes = {entry["bytes"]};'
        yield '    const uint64_t parameter = (uint64_t)parameters;'
        if before_sm_90:
            # Kernels start when the one ahead has ended.
            yield '    grid_wait();'
        for type_, prefix, count in re.findall(r'\.reg \.(\w+) \s*%([a-z]+)<(\d+)>;', entry['body']):
            yield f'    {CPP[type_]} ' + ', '.join(f'{prefix}{i}' for i in range(int(count))) + ';'
        yield from body_of(kernel, entry['body'].split('\n'), text.count('\n', 0, entry.start('body')) + 1, files)
        yield '}'
        yield (f'static shim::Register register_{kernel.name}("{kernel.name}", {entry["bytes"]}, {entry["threads"]}, '
               f'[](const void* p) {{ {kernel.name}((const uint8_t*)p); }});')


if __name__ == '__main__':
    with open(sys.argv[1]) as file:
        ptx = file.read()
    try:
        for line in translate(ptx):
            print(line)
    except Unknown as e:
        sys.exit(f'{sys.argv[1]}: unknown: {e}')
