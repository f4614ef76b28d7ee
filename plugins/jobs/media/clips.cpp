#include "plugins/jobs/media/clips.hpp"

#include <algorithm>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "core/base/cancel.hpp"
#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/base/text_encoding.hpp"
#include "kinora/curation.hpp"
#include "kinora/random.hpp"
#include "plugins/jobs/loading/order.hpp"

namespace kinora::core {

std::string damage_in(const Sample& sample) {
  return text_in(parse_facts(sample.text("json").value_or("null")), "damaged");
}

json facts_with_rate(const Sample& sample, json facts, const OneStage& probe) {
  if (number_in(facts, "fps") > 0 || (!facts.is_object() && !facts.is_null())) return facts;
  for (const char* picture : kPictureFields)
    if (sample.bytes(picture)) return facts;
  try {
    const double fps = number_in(parse_facts(probe(sample).text("json").value_or("null")), "fps");
    if (fps > 0) facts["fps"] = fps;
  } catch (const Error& e) {
    if (cancelled() || e.code() == KINORA_ERROR_CANCELLED) throw;  // decoding it says what is wrong
  }
  return facts;
}

double cut_off(const Sample& read) {
  return number_in(parse_facts(read.text("json").value_or("null")), "cropped");
}

std::string cut_off_text(const std::string& of, double share, int64_t height, int64_t width) {
  return fmt::format(
      "{}: {:.0f} % of the picture is cut off, because its shape is not that of {} x {} pixels (width x "
      "height); set height and width of its shape, or crop it to show what matters",
      of, 100 * share, width, height);
}

namespace {

constexpr double kLargeCut = 0.25;  // share of a picture
constexpr size_t kMostNamed = 10;

}  // namespace

void CutOffs::note(const Sample& read, int64_t height, int64_t width) {
  const double share = cut_off(read);
  if (share > kLargeCut && keys_.insert(std::string(read.key())).second && keys_.size() <= kMostNamed)
    log_warn("{}: {}", job_, cut_off_text(std::string(read.key()), share, height, width));
}

CutOffs::~CutOffs() {
  if (keys_.size() > kMostNamed)
    log_warn("{}: of {} samples more than {:.0f} % of the picture is cut off; the first {} are named above",
             job_, keys_.size(), 100 * kLargeCut, kMostNamed);
}

at::Tensor frames_of_sample(const Sample& sample) {
  const kinora_dl_tensor* t = sample.tensor("frames");
  if (!t || t->ndim != 4 || t->shape[3] != 3 || t->code != KINORA_DL_UINT || t->bits != 8 ||
      !is_row_major(*t))
    throw Error(KINORA_ERROR_INVALID,
                "the stages that decode and transform clips must leave the tensor frames, row-major uint8 "
                "[T, H, W, 3]");
  return at::from_blob(static_cast<char*>(t->data) + t->byte_offset, at::IntArrayRef(t->shape, 4), at::kByte)
      .clone();
}

std::filesystem::path shards_of(const JobView& job) {
  const auto named = [](const JobSpec& spec) {
    if (spec.paths.size() > 1)
      throw Error(
          KINORA_ERROR_INVALID,
          fmt::format("input: {} files and folders; give one folder or URI of shards", spec.paths.size()));
    return std::filesystem::path(spec.paths.front());
  };
  if (!job.spec().paths.empty()) return named(job.spec());
  if (const auto* shard = job.upstream("shard")) return job.folder_of(*shard);
  if (const auto* tokenizer = job.upstream("train-tokenizer"); tokenizer && !tokenizer->paths.empty())
    return named(*tokenizer);
  return job.folder_of(job.need_upstream("shard"));
}

Clips::Clips(JobContext& context, const std::filesystem::path& folder, const json& read_options,
             int64_t memory)
    : runtime_(context.runtime()),
      index_(or_throw(index_webdataset(folder.string()))),
      read_options_(read_options),
      read_(context.runtime(), "video.read", read_options),
      probe_(context.runtime(), "video.probe", json::object()),
      memory_(memory),
      job_(context.spec().name),
      cut_offs_(job_) {
  if (index_.empty())
    throw Error(KINORA_ERROR_DATA, folder.string() + ": contains no samples; check what the curate job kept");
}

Sample Clips::sample(int64_t i) {
  return to_sample(or_throw(read_webdataset(index_[static_cast<size_t>(i)])));
}

std::optional<std::string> Clips::try_caption(int64_t i) {
  return tried(i, [&]() -> std::optional<std::string> {
    return or_throw(utf8_text(std::string(sample(i).text("txt").value_or("")), "the caption of " + key(i)));
  });
}

json Clips::facts(int64_t i) {
  const Sample clip = sample(i);
  auto facts = parse_facts(clip.text("json").value_or("null"));
  return facts_with_rate(clip, facts.is_discarded() ? json() : facts, probe_);
}

double Clips::fps() {
  const double own = number_in(facts(0), "fps");
  return own > 0 ? own : 24.0;
}

at::Tensor Clips::frames(int64_t i) {
  if (const auto it = cache_.find(i); it != cache_.end()) return it->second;
  const Sample made = read_(sample(i));
  require_whole(i, made);
  const at::Tensor frames = frames_of(made);
  while (!order_.empty() && used_ + frames.numel() > memory_) {
    used_ -= cache_.at(order_.front()).numel();
    cache_.erase(order_.front());
    order_.pop_front();
  }
  used_ += frames.numel();
  order_.push_back(i);
  return cache_[i] = frames;
}

at::Tensor Clips::frames_of(const Sample& read) {
  cut_offs_.note(read, read_options_.at("height"), read_options_.at("width"));
  return frames_of_sample(read);
}

void Clips::require_whole(int64_t i, const Sample& read) {
  if (const auto damage = damage_in(read); !damage.empty() && damage != damage_in(sample(i)))
    throw Error(KINORA_ERROR_DATA, damage);
}

template <class F>
auto Clips::tried(int64_t i, F f) -> decltype(f()) {
  if (failed_.count(i)) return {};
  try {
    return f();
  } catch (const Error& e) {
    if (cancelled() || e.code() == KINORA_ERROR_CANCELLED) throw;
    log_warn("{}: clip {} is left out: {}", job_, key(i), e.what());
    failed_.insert(i);
    return {};
  }
}

at::Tensor Clips::try_frames(int64_t i) {
  return tried(i, [&] { return frames(i); });
}

std::optional<int64_t> Clips::try_length(int64_t i) {
  return tried(i, [&]() -> std::optional<int64_t> {
    try {
      return frames(i).size(0);
    } catch (const Error& e) {
      if (e.code() != KINORA_ERROR_NO_MEMORY) throw;
      return counted(i);
    }
  });
}

int64_t Clips::counted(int64_t i) {
  const Sample made = OneStage(runtime_, "video.probe", json{{"count", true}})(sample(i));
  require_whole(i, made);
  const int64_t all = json::parse(made.text("json").value_or("{}")).value("frames", int64_t{0}),
                every = read_options_.value("stride", int64_t{1});
  return (all + every - 1) / every;
}

at::Tensor Clips::frames(int64_t i, int64_t first, int64_t count) {
  if (const auto whole = cache_.find(i); whole != cache_.end()) return whole->second.narrow(0, first, count);
  const bool has =
      block_.clip == i && first >= block_.first && first + count <= block_.first + block_.frames.size(0);
  if (!has) {
    const int64_t bytes = 3 * read_options_.at("height").get<int64_t>() *
                          read_options_.at("width").get<int64_t>(),
                  wanted = std::max(count, memory_ / bytes);
    json options = read_options_;
    options.update({{"first", first * read_options_.value("stride", int64_t{1})},
                    {"frames", wanted},
                    {"memory", std::max(wanted * bytes, int64_t{1} << 20)}});
    block_ = {};
    block_ = {i, first, frames_of(OneStage(runtime_, "video.read", options)(sample(i)))};
  }
  if (block_.frames.size(0) < first - block_.first + count)
    throw Error(KINORA_ERROR_DATA, fmt::format("{}: {} frames from number {} on; {} were counted", key(i),
                                               block_.frames.size(0), block_.first, first + count));
  return block_.frames.narrow(0, first - block_.first, count);
}

Error Clips::none_usable(int64_t too_short, int64_t failed, int64_t frames) const {
  return Error(KINORA_ERROR_DATA, fmt::format("none of {} clips is usable: {} have fewer than {} frames, "
                                              "{} cannot be decoded; lower frames, or see the "
                                              "warnings above",
                                              size(), too_short, frames, failed));
}

namespace {

// Columns first, then rows, rounded to whole levels after each, as in Pillow.
at::Tensor resized(at::Tensor x, int64_t height, int64_t width) {
  const auto to = [](const at::Tensor& t, int64_t h, int64_t w) {
    return at::_upsample_bicubic2d_aa(t, {h, w}, false).add(0.5).floor().clamp(0, 255);
  };
  if (x.size(3) != width) x = to(x, x.size(2), width);
  return x.size(2) == height ? x : to(x, height, width);
}

}  // namespace

at::Tensor clip_image(const at::Tensor& frame, int64_t size) {
  at::Tensor x = frame.permute({2, 0, 1}).unsqueeze(0).to(at::kDouble);
  const int64_t H = x.size(2), W = x.size(3), shorter = std::min(H, W);
  x = resized(x, size * H / shorter, size * W / shorter);
  x = x.narrow(2, (x.size(2) - size) / 2, size).narrow(3, (x.size(3) - size) / 2, size);
  const auto by_channel = [&](at::ArrayRef<double> v) {
    return at::tensor(v, x.options()).view({1, 3, 1, 1});
  };
  return ((x / 255 - by_channel({0.48145466, 0.4578275, 0.40821073})) /
          by_channel({0.26862954, 0.26130258, 0.27577711}))
      .to(at::kFloat)
      .contiguous();
}

void set_frames(Sample& sample, const at::Tensor& frames) {
  const at::Tensor whole = frames.contiguous();
  const auto* data = whole.data_ptr<uint8_t>();
  sample.set_tensor("frames", {data, data + whole.numel()}, whole.sizes().vec(), KINORA_DL_UINT, 8);
}

int64_t shuffled(int64_t n, int64_t count, uint64_t seed) {
  const auto at = static_cast<uint64_t>(n), all = static_cast<uint64_t>(count);
  return static_cast<int64_t>(permuted(at % all, all, Random(seed, "order"), at / all));
}

}  // namespace kinora::core
