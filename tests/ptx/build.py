"""Builds the driver of tests/cuda_shim over the PTX that nvcc makes of the kernels."""
import concurrent.futures
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


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        sys.exit(f'{" ".join(map(str, command))}\n{done.stdout}{done.stderr}')
    return done.stdout


def to_ptx(source, target, out):
    run([nvcc(), '-std=c++17', '-O3', '-lineinfo', '--ptx', f'-arch=compute_{target}', '-o', out, source])


def to_object(ptx):
    """Translates a file of PTX and compiles it."""
    cpp, made = ptx.with_suffix('.cpp'), ptx.with_suffix('.o')
    cpp.write_text(run([sys.executable, HERE / 'translate.py', ptx]))
    run(CXX + ['-I', HERE, '-c', '-o', made, cpp])
    return made


def link(objects, out):
    run(CXX + ['-shared', '-o', out, *objects])


def units():
    """Files with kernels; nvcc takes them as one in the library."""
    return sorted(path for path in (ROOT / 'kernels').glob('*.cu') if path.stem != 'realizar')


def build(target):
    """The driver over PTX of `target`, such as 90: where it lies, with its objects beside it."""
    folder = BUILD / f'compute_{target}'
    folder.mkdir(parents=True, exist_ok=True)

    def kernels(source):
        ptx = folder / f'{source.stem}.ptx'
        to_ptx(source, target, ptx)
        return to_object(ptx)

    def checker(source):
        made = folder / f'{source.stem}.o'
        run(CXX + ['-O2', '-DPTX', '-c', '-o', made, source])
        return made

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        others = pool.map(checker, [HERE / 'memory.cpp', ROOT / 'tests/cuda_shim/driver.cpp'])
        objects = [*pool.map(kernels, units()), *others]
    driver = folder / 'driver.so'
    link(objects, driver)
    return driver
