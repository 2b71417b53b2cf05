"""Builds the driver of tests/cuda_shim over the PTX that nvcc makes of the kernels."""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / 'build/ptx'
CXX = ['c++', '-std=c++17', '-O1', '-fPIC', '-fvisibility=hidden', '-ffp-contract=off', '-U_FORTIFY_SOURCE']


def nvcc():
    """The compiler that build.rs would find, or None."""
    places = [os.environ.get('NVCC'), os.environ.get('CUDA_HOME') and os.environ['CUDA_HOME'] + '/bin/nvcc', 'nvcc',
              sysconfig.get_path('purelib') + '/nvidia/cu13/bin/nvcc']
    return next((path for place in places if place and (path := shutil.which(place))), None)


def require():
    """Ends the program where something is missing, aloud."""
    for tool, found in (('nvcc', nvcc()), ('c++', shutil.which('c++'))):
        if not found:
            print(f"SKIPPED: the kernels' PTX, because there is no {tool}")
            sys.exit(0)


class Refused(SystemExit):
    """PTX that the translator does not know."""


def run(command, failure=SystemExit):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise failure(f'{" ".join(map(str, command))}\n{done.stdout}{done.stderr}')
    return done.stdout


def make(made, sources, command):
    """Runs the command that makes a file, unless what is there was made by the same command of the same sources."""
    key = hashlib.sha256(b''.join([repr(command).encode(), *(source.read_bytes() for source in sources)])).hexdigest()
    stamp = made.with_name(made.name + '.stamp')
    if not (made.exists() and stamp.exists() and stamp.read_text() == key):
        stamp.unlink(missing_ok=True)
        run(command)
        stamp.write_text(key)
    return made


# Units whose kernels only some architectures have, and one of these.
ONLY = {'gemm_int8': '86'}


def to_ptx(source, target, out):
    target = ONLY.get(source.stem, target)
    headers = sorted((ROOT / 'kernels').glob('*.cuh'))
    # As generators/cuda.rs has it, with what this architecture alone has.
    target += 'a' if target == '90' else ''
    return make(out, [source, *headers],
                [nvcc(), '-std=c++17', '-O3', '-lineinfo', '--ptx', f'-arch=compute_{target}', '-o', out, source])


def compile(source, made, flags):
    """Compiles a file of C++."""
    headers = [HERE / 'runtime.h', HERE / 'memory.h', ROOT / 'tests/cuda_shim/threads.h']
    return make(made, [source, *headers], CXX + flags + ['-I', HERE, '-c', '-o', made, source])


def to_object(ptx):
    """Translates a file of PTX and compiles it."""
    cpp = ptx.with_suffix('.cpp')
    cpp.write_text(run([sys.executable, HERE / 'translate.py', ptx], Refused))
    return compile(cpp, ptx.with_suffix('.o'), [])


def link(objects, out):
    return make(out, objects, CXX + ['-shared', '-o', out, *objects])


def units():
    """Files with kernels; nvcc takes them as one in the library."""
    return sorted(path for path in (ROOT / 'kernels').glob('*.cu') if path.stem != 'realizar')


def build(target, sources, name):
    """A driver over the PTX of `target`, such as 90, that nvcc makes of some files; its objects lie beside it."""
    folder = BUILD / name / f'compute_{target}'
    folder.mkdir(parents=True, exist_ok=True)

    def kernels(source):
        ptx = folder / f'{source.stem}.ptx'
        to_ptx(source, target, ptx)
        return to_object(ptx)

    def checker(source):
        return compile(source, folder / f'{source.stem}.o', ['-O2', '-DPTX'])

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        others = pool.map(checker, [HERE / 'memory.cpp', ROOT / 'tests/cuda_shim/driver.cpp'])
        return link([*pool.map(kernels, sources), *others], folder / 'driver.so')


def tests():
    """Programs of the tests of the CUDA backend, of its tiles and recurrences, of the engine on it and of its choices, made by cargo, and what
    the names of their tests begin with."""
    command = [os.environ.get('CARGO', 'cargo'), 'test', '--no-run', '--message-format=json', '--test', 'it', '--test', 'offload',
               '--test', 'choose']
    made = map(json.loads, subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout.splitlines())
    programs = {m['target']['name']: m['executable'] for m in made if m.get('executable') and m['profile']['test']}
    modules = {module: (programs['it'], f'{module}::') for module in ('cuda', 'tiles', 'recurrences')}
    return modules | {name: (programs[name], '') for name in ('offload', 'choose')}


def run_test(program, driver, processors, test=''):
    """Runs tests, or one whose name begins so, on a driver that says it has so many processors."""
    environment = {**os.environ, 'CUDA_SHIM': str(driver), 'SHIM_PROCESSORS': str(processors)}
    path, module = program
    return subprocess.run([path, module + test], env=environment, cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
