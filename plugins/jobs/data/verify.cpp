#include "plugins/jobs/data/verify.hpp"

#include <algorithm>
#include <mutex>
#include <thread>

#include <fmt/ranges.h>

#include "core/base/quantity.hpp"
#include "core/base/status.hpp"
#include "core/runtime/call.hpp"
#include "kinora/energon_index.hpp"
#include "plugins/jobs/data/check_index.hpp"
#include "plugins/jobs/data/fields.hpp"
#include "plugins/jobs/data/in_order.hpp"
#include "plugins/jobs/data/media.hpp"
#include "plugins/jobs/data/record.hpp"

namespace kinora::data {
namespace {

// Decoders that threads take for one shard.
class Decoders {
 public:
  explicit Decoders(const std::function<DecodeMedium()>& make) : make_(make) {}
  bool are_used() const { return static_cast<bool>(make_); }
  DecodeMedium take() {
    if (!make_) return {};
    const std::scoped_lock lock(mutex_);
    if (free_.empty()) return make_();
    DecodeMedium out = std::move(free_.back());
    free_.pop_back();
    return out;
  }
  void give_back(DecodeMedium decoder) {
    const std::scoped_lock lock(mutex_);
    free_.push_back(std::move(decoder));
  }

 private:
  const std::function<DecodeMedium()>& make_;
  std::mutex mutex_;
  std::vector<DecodeMedium> free_;
};

// Only keys are looked for.
std::vector<energon::StoredSample> without_parts(const std::vector<energon::StoredSample>& samples) {
  std::vector<energon::StoredSample> out;
  out.reserve(samples.size());
  for (const auto& s : samples) out.push_back({s.key, s.offset, s.size, {}});
  return out;
}

class Verifier {
 public:
  Verifier(const DataFolder& folder, const VerifyOptions& options, const OnProblem& problem)
      : folder_(folder),
        problem_(problem),
        decoders_(options.decoder),
        fields_(options.optional),
        progress_("verify", static_cast<int64_t>(folder.shards.size()), "shards"),
        index_(folder, [this](const Problem& p) { report(p); }),
        has_problem_(folder.shards.size()),
        samples_(folder.shards.size()) {}

  VerifyReport run(uint64_t threads) {
    report_.shards = folder_.shards.size();
    report_.bytes = folder_.bytes();
    if (!index_.is_there())
      report_.notes.emplace_back("without an index, none was compared; kinora data index writes one");
    if (threads == 0) threads = std::thread::hardware_concurrency();
    InOrder<CheckedPiece> in_order(folder_.shards.size(), std::max<uint64_t>(threads, 1));
    in_order.run(
        [&](size_t number, const InOrder<CheckedPiece>::Push& push) {
          DecodeMedium decoder = decoders_.take();
          check_shard(folder_.shards[number], decoder, push);
          decoders_.give_back(std::move(decoder));
        },
        [&](size_t number, CheckedPiece piece) { take(number, piece); });
    if (begun_ > 0) index_.end_shard();
    finish();
    return std::move(report_);
  }

 private:
  void report(const Problem& problem) {
    ++report_.problems;
    if (begun_ > 0) has_problem_[begun_ - 1] = 1;
    problem_(problem);
  }

  void take(size_t number, const CheckedPiece& piece) {
    if (begun_ == number) {  // its first piece
      if (begun_ > 0) index_.end_shard();
      ++begun_;
      index_.begin_shard(folder_.shards[number].name);
      fields_.begin_shard();
    }
    for (const auto& problem : piece.problems) report(problem);
    std::set<uint64_t> left_out;
    keys_.add(static_cast<int64_t>(number), without_parts(piece.samples), samples_[number],
              [&](const energon::StoredSample& sample, const energon::ShardIndex::Place& first) {
                left_out.insert(sample.offset);
                report({folder_.shards[number].name, sample.key, sample.offset,
                        fmt::format("the key is also in {} at {}; make the keys differ",
                                    folder_.shards[static_cast<size_t>(first.shard)].name, first.offset)});
              });
    index_.add(piece.samples, left_out);
    for (const auto& sample : piece.samples) fields_.add(sample);
    for (const auto& sample : piece.samples) see_undecoded(sample);
    samples_[number] += piece.samples.size();
    report_.samples += piece.samples.size();
    progress_.update(static_cast<int64_t>(begun_),
                     core::counted(static_cast<int64_t>(report_.samples), "sample", "samples"));
  }

  void see_undecoded(const energon::StoredSample& sample) {
    constexpr size_t kMostNamed = 20;
    for (const auto& part : sample.parts) {
      decoded_ += is_decoded(part.name) && part.size > 0;
      if (fields_seen_.size() < kMostNamed) fields_seen_.insert(core::printable(part.name));
      const bool is_preview = part.name == "preview.webp";  // of clip.preview, for people
      if (is_medium(part.name) && !is_decoded(part.name) && !is_preview && undecoded_.size() < kMostNamed)
        undecoded_.insert(core::printable(part.name));
    }
  }

  void finish() {
    progress_.finish();
    if (decoders_.are_used() && decoded_ == 0)
      report_.notes.push_back(fmt::format(
          "no medium was decoded: no sample has a field such as mp4, webm, jpg or png (the fields are {})",
          fmt::join(fields_seen_, ", ")));
    if (decoders_.are_used() && !undecoded_.empty())
      report_.notes.push_back(fmt::format("not decoded, since no training decodes them: the fields {}",
                                          fmt::join(undecoded_, ", ")));
    Record record;
    for (size_t i = 0; i < folder_.shards.size(); ++i) {
      begun_ = i + 1;
      for (const auto& problem : fields_.missing(i, folder_.shards[i].name)) report(problem);
      if (has_problem_[i]) continue;
      ++report_.passed;
      record.add(folder_.shards[i], samples_[i]);
    }
    if (folder_.is_one_file) return;
    const auto written = core::catching([&] { write_record(folder_, kVerifiedRecord, record); });
    if (!written) report_.notes.push_back("the result is not kept: " + written.failure().message);
  }

  const DataFolder& folder_;
  const OnProblem& problem_;
  Decoders decoders_;
  FieldSets fields_;
  core::Progress progress_;
  energon::ShardIndex keys_;
  VerifyReport report_;
  size_t begun_ = 0;  // shards so far; problems are of the last one
  CheckIndex index_;
  std::vector<char> has_problem_;
  std::vector<uint64_t> samples_;    // of each shard
  std::set<std::string> undecoded_;  // fields that look like media
  std::set<std::string> fields_seen_;
  uint64_t decoded_ = 0;  // media
};

}  // namespace

VerifyReport verify_folder(const DataFolder& folder, const VerifyOptions& options, const OnProblem& problem) {
  return Verifier(folder, options, problem).run(options.threads);
}

}  // namespace kinora::data
