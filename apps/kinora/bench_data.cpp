// kinora bench data: samples of shards in the order of a training, against reading the files from end to end.
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include <fmt/format.h>

#include "apps/kinora/bench.hpp"
#include "plugins/jobs/loading/data_order.hpp"

namespace kinora {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kOfShard = 5000;

double seconds_of(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
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

// Shards with an index; each sample has a picture's bytes, facts and a caption.
class Shards {
 public:
  explicit Shards(int64_t samples) {
    std::string name = (fs::temp_directory_path() / "kinora-bench-XXXXXX").string();
    if (!mkdtemp(name.data()))
      throw Error(KINORA_ERROR_IO,
                  name + ": cannot create a temporary folder; set TMPDIR to a writable folder");
    folder_ = name;
    const std::string picture(12'000, 'p'), facts(200, 'f'), caption(60, 'c');
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
        bytes += member(key + ".jpg", picture) + member(key + ".json", facts) + member(key + ".txt", caption);
      }
      mark();
      bytes.append(1024, '\0');
      std::ofstream(file, std::ios::binary) << bytes;
      std::ofstream(file.string() + ".idx", std::ios::binary) << index;
      files_.push_back(file);
    }
  }
  Shards(const Shards&) = delete;
  Shards& operator=(const Shards&) = delete;
  ~Shards() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  void read_files() const {
    std::vector<char> block(1 << 20);
    for (const auto& file : files_) {
      std::ifstream in(file, std::ios::binary);
      while (in.read(block.data(), static_cast<std::streamsize>(block.size()))) {
      }
    }
  }
  core::DataOrder order(int64_t shuffle) const {
    return {core::DataInput{.path = folder_.string(), .parts = {}, .shuffle = shuffle}, 1};
  }

 private:
  fs::path folder_;
  std::vector<fs::path> files_;
};

void read_all(core::DataOrder& order) {
  for (uint64_t slot = 0; slot < order.pass(); ++slot) {
    const auto draw = order.at(slot);
    (void)order.set(draw.set).read(draw.place);
  }
}

}  // namespace

json bench_data(core::Runtime&, const BenchOptions& options) {
  const int64_t samples = options.quick ? 500 : 50'000;
  const Shards shards(samples);
  core::DataOrder plain = shards.order(0), shuffled = shards.order(1000);
  std::vector<double> cat, in_order, in_blocks, of_cat, of_cat_shuffled, resumes;
  shards.read_files();  // into the page cache
  for (int round = 0; round < options.repeat; ++round) {
    const auto rate = [&](const std::function<void()>& f) {
      return static_cast<double>(samples) / seconds_of(f);
    };
    cat.push_back(rate([&] { shards.read_files(); }));
    in_order.push_back(rate([&] { read_all(plain); }));
    in_blocks.push_back(rate([&] { read_all(shuffled); }));
    of_cat.push_back(in_order.back() / cat.back());
    of_cat_shuffled.push_back(in_blocks.back() / cat.back());
    resumes.push_back(seconds_of([&] {
      core::DataOrder resumed = shards.order(1000);
      const auto draw = resumed.at(uint64_t{1} << 40);
      (void)resumed.set(draw.set).read(draw.place);
    }));
  }
  constexpr double kOfCat = 0.8;
  return {{"samples", samples},
          {"files_samples_per_second", median(cat)},
          {"samples_per_second", median(in_order)},
          {"shuffled_samples_per_second", median(in_blocks)},
          {"of_files", median(of_cat)},
          {"shuffled_of_files", median(of_cat_shuffled)},
          {"first_sample_after_resume_seconds", median(resumes)},
          {"bound", {{"of_files", kOfCat}}},
          {"within", median(of_cat) >= kOfCat || options.quick}};
}

}  // namespace kinora
