#include "apps/bench/bench_shards.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "apps/bench/bench.hpp"

namespace kinora {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kOfShard = 5000;

fs::path scratch_folder() {
  std::string name = (fs::temp_directory_path() / "kinora-bench-XXXXXX").string();
  if (!mkdtemp(name.data()))
    throw Error(KINORA_ERROR_IO,
                name + ": cannot create a temporary folder; set TMPDIR to a writable folder");
  return name;
}

// A member of a tar archive in the format ustar.
std::string member(const std::string& name, const std::string& content) {
  std::string out(512, '\0');
  const auto put = [&](size_t at, const std::string& text) {
    std::memcpy(&out[at], text.data(), text.size());
  };
  put(0, name);
  put(100, "0000644");
  put(124, fmt::format("{:011o}", content.size()));
  put(148, "        ");
  out[156] = '0';
  put(257, std::string("ustar\0"
                       "00",
                       8));
  unsigned sum = 0;
  for (const char c : out) sum += static_cast<unsigned char>(c);
  put(148, fmt::format("{:06o}", sum) + std::string(1, '\0'));
  out += content;
  out.resize((out.size() + 511) / 512 * 512);
  return out;
}

}  // namespace

std::vector<std::string> made_pictures() {
  constexpr int kPictures = 96;
  const fs::path folder = scratch_folder();
  output_of(
      fmt::format("ffmpeg -v error -f lavfi -i testsrc2=size=256x256:rate=24,noise=alls=8:allf=t "
                  "-frames:v {} -pix_fmt yuvj420p -q:v 5 {}",
                  kPictures, shell_quoted((folder / "%03d.jpg").string())));
  std::vector<std::string> out;
  for (int i = 1; i <= kPictures; ++i) {
    std::ifstream in(folder / fmt::format("{:03}.jpg", i), std::ios::binary);
    out.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  fs::remove_all(folder);
  if (std::any_of(out.begin(), out.end(), [](const auto& picture) { return picture.empty(); }))
    throw Error(KINORA_ERROR_NOT_FOUND,
                "bench data: the ffmpeg command that makes pictures failed or is missing; install FFmpeg");
  return out;
}

BenchShards::BenchShards(int64_t samples, const std::vector<std::string>& pictures)
    : scratch_(scratch_folder()), folder_(scratch_ / "shards") {
  fs::create_directory(folder_);
  const std::string facts = R"({"width": 256, "height": 256, "about": ")" + std::string(160, 'f') + "\"}",
                    caption(60, 'c');
  for (int64_t first = 0; first < samples; first += kOfShard) {
    const fs::path file = folder_ / fmt::format("shard-{:06}.tar", first / kOfShard);
    std::string bytes, index;
    const auto mark = [&] {
      const uint64_t at = bytes.size();
      index.append(reinterpret_cast<const char*>(&at), sizeof at);
    };
    for (int64_t i = first; i < std::min(samples, first + kOfShard); ++i) {
      mark();
      const std::string key = fmt::format("{:09}", i);
      bytes += member(key + ".jpg", pictures[static_cast<size_t>(i) % pictures.size()]) +
               member(key + ".json", facts) + member(key + ".txt", caption);
    }
    mark();
    bytes.append(1024, '\0');
    std::ofstream(file, std::ios::binary) << bytes;
    std::ofstream(file.string() + ".idx", std::ios::binary) << index;
    files_.push_back(file);
  }
}

BenchShards::~BenchShards() {
  std::error_code ignored;
  fs::remove_all(scratch_, ignored);
}

void BenchShards::read_files() const {
  std::vector<char> block(1 << 20);
  for (const auto& file : files_) {
    std::ifstream in(file, std::ios::binary);
    while (in.read(block.data(), static_cast<std::streamsize>(block.size()))) {
    }
  }
}

void BenchShards::cat() const { output_of("cat " + shell_quoted(folder_.string()) + "/*.tar > /dev/null"); }

core::DataOrder BenchShards::order(int64_t shuffle) const {
  return {core::DataInput{.path = folder_.string(), .parts = {}, .shuffle = shuffle}, 1};
}

}  // namespace kinora
