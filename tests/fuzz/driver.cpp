// Drives a fuzz target without a fuzzer: `target RUNS FILE...` feeds it the files and RUNS seeded mutations
// of them, the same ones in every run. If it crashes, the input is left in fuzz-failure.bin, and
// `target FILE` repeats it. With clang, -DKINORA_FUZZER=ON links libFuzzer's driver instead of this one.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <random>
#include <unistd.h>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;
using Random = std::mt19937_64;

Bytes current;  // written to disk by the signal handler

void leave_input(int signal) {
  const int file = open("fuzz-failure.bin", O_CREAT | O_TRUNC | O_WRONLY, 0644);
  const ssize_t written = write(file, current.data(), current.size());
  static_cast<void>(written);  // a signal handler cannot report an error
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

uint64_t below(Random& random, uint64_t n) { return n ? random() % n : 0; }

// Writes numbers at the limits of their types, in both byte orders, over 1 to 8 bytes.
void put_edge(Bytes& b, Random& random) {
  constexpr uint64_t kEdges[] = {
      0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0xffffffff, 0x7fffffffffffffff, ~0ULL};
  const uint64_t edge = kEdges[below(random, std::size(kEdges))];
  const size_t width = size_t{1} << below(random, 4), at = below(random, b.size());
  const bool little = random() & 1;
  for (size_t i = 0; i < width && at + i < b.size(); ++i)
    b[at + i] = static_cast<uint8_t>(edge >> (8 * (little ? i : width - 1 - i)));
}

void mutate(Bytes& b, Random& random, const std::vector<Bytes>& seeds) {
  const auto at = static_cast<Bytes::difference_type>(below(random, b.size() + 1));
  const auto span = static_cast<Bytes::difference_type>(
      below(random, std::min<uint64_t>(64, b.size() - static_cast<size_t>(at)) + 1));
  switch (below(random, 7)) {
    case 0:
      b.resize(static_cast<size_t>(at));
      break;
    case 1:
      b.erase(b.begin() + at, b.begin() + at + span);
      break;
    case 2: {
      const Bytes piece(b.begin() + at, b.begin() + at + span);
      b.insert(b.begin() + at, piece.begin(), piece.end());
      break;
    }
    case 3: {
      const Bytes& other = seeds[below(random, seeds.size())];
      const size_t from = below(random, other.size()),
                   n = std::min(other.size() - from, size_t{1} << below(random, 12));
      b.insert(b.begin() + at, other.begin() + static_cast<Bytes::difference_type>(from),
               other.begin() + static_cast<Bytes::difference_type>(from + n));
      break;
    }
    case 4:
      if (!b.empty()) put_edge(b, random);
      break;
    default:  // headers are the most sensitive part of most formats
      for (uint64_t n = 1 + below(random, 8); n > 0 && !b.empty(); --n)
        b[below(random, random() & 1 ? b.size() : std::min<size_t>(b.size(), 512))] ^=
            static_cast<uint8_t>(1U << below(random, 8));
  }
}

Bytes load(const char* path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    std::fprintf(stderr, "cannot read %s\n", path);
    std::exit(2);
  }
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s RUNS FILE...   or   %s FILE\n", argv[0], argv[0]);
    return 2;
  }
  const bool repeat = argc == 2;
  std::vector<Bytes> seeds;
  for (int i = repeat ? 1 : 2; i < argc; ++i) seeds.push_back(load(argv[i]));
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTERM})
    std::signal(signal, leave_input);
  for (const auto& seed : seeds) {
    current = seed;
    LLVMFuzzerTestOneInput(current.data(), current.size());
  }
  const unsigned long runs = repeat ? 0 : std::strtoul(argv[1], nullptr, 10);
  for (unsigned long run = 0; run < runs; ++run) {
    Random random(run);
    current = seeds[below(random, seeds.size())];
    for (uint64_t n = 1 + below(random, 4); n > 0; --n) mutate(current, random, seeds);
    LLVMFuzzerTestOneInput(current.data(), current.size());
  }
  std::printf("%zu files and %lu mutations of them\n", seeds.size(), runs);
}
