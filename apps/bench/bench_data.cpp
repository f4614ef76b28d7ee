// kinora bench data: samples of shards in the order of a training, against reading the files from end to end; pictures
// decoded and batched; and loaders in Python over the same shards.
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <thread>

#include <fmt/format.h>

#include "apps/bench/bench.hpp"
#include "apps/bench/bench_shards.hpp"
#include "core/base/paths.hpp"
#include "host/stages/one_stage.hpp"
#include "kinora/webdataset.hpp"

namespace kinora {
namespace {

using nlohmann::json;
using Rates = std::vector<double>;  // samples a second, of each round

double seconds_of(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double rate_of(int64_t samples, const std::function<void()>& f) {
  return static_cast<double>(samples) / seconds_of(f);
}

// The median of the rounds' ratios.
double ratio_of(const Rates& a, const Rates& b) {
  Rates out;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) out.push_back(a[i] / b[i]);
  return median(out);
}

void read_all(core::DataOrder& order) {
  for (uint64_t slot = 0; slot < order.pass(); ++slot) {
    const auto draw = order.at(slot);
    (void)order.set(draw.set).read(draw.place);
  }
}

// A loader of one rank of several: decodes its slots by stage/video.read, as a training does, and puts them into
// batches.
class PictureLoader {
 public:
  PictureLoader(core::Runtime& runtime, const BenchShards& shards, bool trusts_media)
      : order_(shards.order(1000)),
        decode_(runtime, "video.read", json{{"frames", 1}, {"height", kSide}, {"width", kSide}},
                {.trusts_media = trusts_media}),
        batch_(kBatch * kBytes) {}

  // Slots first, first + of, first + 2 of ... below end.
  void load(uint64_t first, uint64_t of, uint64_t end) {
    size_t row = 0;
    for (uint64_t slot = first; slot < end; slot += of) {
      const auto draw = order_.at(slot);
      const Sample decoded = decode_(to_sample(order_.set(draw.set).read(draw.place)));
      const auto* frames = decoded.tensor("frames");
      if (!frames || frames->shape[1] != kSide || frames->shape[2] != kSide)
        throw Error(KINORA_ERROR_FAILED, "bench data: a picture was not decoded");
      std::memcpy(batch_.data() + row * kBytes, static_cast<char*>(frames->data) + frames->byte_offset,
                  kBytes);
      row = (row + 1) % kBatch;
    }
  }

 private:
  static constexpr int64_t kSide = 256;
  static constexpr size_t kBatch = 64, kBytes = 3 * kSide * kSide;
  core::DataOrder order_;
  core::OneStage decode_;
  std::vector<uint8_t> batch_;
};

// One loader a core, as many ranks as that have; the first sample of each starts its process.
class PictureLoaders {
 public:
  PictureLoaders(core::Runtime& runtime, const BenchShards& shards, bool trusts_media) {
    const uint64_t cores = std::max(1U, std::thread::hardware_concurrency());
    for (uint64_t i = 0; i < cores; ++i) {
      loaders_.push_back(std::make_unique<PictureLoader>(runtime, shards, trusts_media));
      loaders_.back()->load(i, cores, i + 1);
    }
  }
  void load(uint64_t samples) {
    std::vector<std::future<void>> threads;
    for (uint64_t i = 0; i < loaders_.size(); ++i)
      threads.push_back(std::async(std::launch::async,
                                   [this, i, samples] { loaders_[i]->load(i, loaders_.size(), samples); }));
    for (auto& thread : threads) thread.get();
  }

 private:
  std::vector<std::unique_ptr<PictureLoader>> loaders_;
};

// Adds what the peers' command prints: {"raw.webdataset": 2900, ...}.
void add_peers(const BenchOptions& options, const BenchShards& shards, std::map<std::string, Rates>& peers) {
  const std::string folder = shell_quoted(shards.folder().string());
  const json said = json::parse(output_of(options.peer + " " + folder), nullptr, false);
  if (!said.is_object())
    throw Error(KINORA_ERROR_FAILED, "bench data: the peer's command " + options.peer + " " + folder +
                                         " printed no JSON; run it by hand to see why");
  for (const auto& [name, rate] : said.items()) peers[name].push_back(rate.get<double>());
}

}  // namespace

json bench_data(core::Runtime& runtime, const BenchOptions& options) {
  const int64_t samples = options.quick ? 500 : 50'000, decoded = options.quick ? 100 : 10'000;
  const auto pictures = made_pictures();
  const BenchShards shards(samples, pictures), small(decoded, pictures);
  core::DataOrder plain = shards.order(0), shuffled = shards.order(1000);
  PictureLoaders here(runtime, small, true), apart(runtime, small, false);
  if (!options.peer.empty())
    output_of(shell_quoted((core::executable_folder() / "kinora").string()) + " data index " +
              shell_quoted(small.folder().string()));
  Rates files, cat, in_order, in_blocks, decoded_here, decoded_apart, resumes;
  std::map<std::string, Rates> peers;
  shards.read_files();  // into the page cache
  for (int round = 0; round < options.repeat; ++round) {
    files.push_back(rate_of(samples, [&] { shards.read_files(); }));
    cat.push_back(rate_of(samples, [&] { shards.cat(); }));
    in_order.push_back(rate_of(samples, [&] { read_all(plain); }));
    in_blocks.push_back(rate_of(samples, [&] { read_all(shuffled); }));
    decoded_here.push_back(rate_of(decoded, [&] { here.load(static_cast<uint64_t>(decoded)); }));
    decoded_apart.push_back(rate_of(decoded, [&] { apart.load(static_cast<uint64_t>(decoded)); }));
    if (!options.peer.empty()) add_peers(options, small, peers);
    resumes.push_back(seconds_of([&] {
      core::DataOrder resumed = shards.order(1000);
      const auto draw = resumed.at(uint64_t{1} << 40);
      (void)resumed.set(draw.set).read(draw.place);
    }));
  }
  constexpr double kOfCat = 0.8;
  json out{{"samples", samples},
           {"files_samples_per_second", median(files)},
           {"cat_samples_per_second", median(cat)},
           {"samples_per_second", median(in_order)},
           {"shuffled_samples_per_second", median(in_blocks)},
           {"of_files", ratio_of(in_order, files)},
           {"of_cat", ratio_of(in_order, cat)},
           {"shuffled_of_cat", ratio_of(in_blocks, cat)},
           {"jpeg_samples_per_second", {{"trusted", median(decoded_here)}, {"apart", median(decoded_apart)}}},
           {"first_sample_after_resume_seconds", median(resumes)}};
  if (!options.quick) {  // so few samples say nothing about the speed
    out["bound"] = {{"of_cat", kOfCat}};
    out["within"] = ratio_of(in_order, cat) >= kOfCat;
  }
  for (const auto& [name, rates] : peers)
    out["peers"][name] = {
        {"samples_per_second", median(rates)},
        {"faster_than_peer", ratio_of(name.starts_with("raw.") ? in_order : decoded_here, rates)}};
  return out;
}

}  // namespace kinora
