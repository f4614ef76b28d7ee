#include "dedup_stage.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <omp.h>
#include <set>
#include <thread>

#include "clusters.hpp"
#include "kinora/curation.hpp"
#include "kinora/plugin.hpp"

namespace kinora::dedup {
namespace {

constexpr const char* kSignatureField = "signature";
constexpr const char* kBytesField = "bytes";      // size of the clip's file, which a dedup job sets
constexpr const char* kDamagedField = "damaged";  // of clips of a damaged video, which a dedup job sets
constexpr double kDefaultEps = 0.01;
constexpr size_t kMostCompared = 32;  // earlier clips, the most similar ones, that a clip is compared with

std::string fixed(double value, int digits) {
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%.*f", digits, value);
  return out.data();
}

// "cosine 0.998, motion 0.97 alike, 0.25 s later". The speed is not said: of clips of a few seconds the best one is
// off by up to 0.1.
std::string why(const std::string& rule, double similarity, const Aligned& motion) {
  if (rule == "dedup.exact") return "the same bytes";
  const std::string cosine = "cosine " + fixed(similarity, 4);
  if (motion.correlation < 0) return cosine + ", by the embedding alone";
  return cosine + ", motion " + fixed(motion.correlation, 2) + " alike" +
         (motion.offset_s != 0 ? ", " + fixed(std::abs(motion.offset_s), 2) + " s " +
                                     (motion.offset_s > 0 ? "later" : "earlier")
                               : "");
}

// Calls f(n) for begin <= n < end, in threads.
template <class F>
void in_threads(int threads, size_t begin, size_t end, const F& f) {
  std::atomic<size_t> next{begin};
  const auto work = [&] {
    for (size_t n = next++; n < end; n = next++) f(n);
  };
  std::vector<std::jthread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work);
  work();
}

}  // namespace

void DedupSemantic::describe(Describe<Options>& d) {
  d.name("dedup.semantic")
      .help(
          "Drops duplicate clips: equal bytes, or alike embeddings (k-means, then cosines within each "
          "cluster) "
          "and the same motion in their frames");
  d.option("embedding", &Options::embedding).help("name of the embedding: field NAME.npy");
  d.option("name", &Options::name).help("former name of `embedding`, for this release; empty: not given");
  d.option("exact", &Options::exact)
      .help("drop clips of the same content: field sha256, which a dedup job sets; rule dedup.exact");
  d.option("semantic", &Options::semantic)
      .help("drop clips of nearly the same embedding; rule dedup.semantic");
  d.option("mode", &Options::mode)
      .choices({"on", "score"})
      .help("score: records of which clip a clip is a copy, and keeps it");
  d.option("eps", &Options::eps)
      .range(-1, 2)
      .help(
          "largest cosine distance of duplicates where the embedding alone decides, for clips without a "
          "signature or without motion: a clip is dropped if its cosine with one preferred by keep is at "
          "least 1 - eps; below 0: what the facts say of the embedding (0.002 of embed.classic), else 0.01, "
          "as in Cosmos-Curate; NeMo Curator uses 0.1");
  d.option("reach", &Options::reach)
      .range(0, 2)
      .help(
          "largest cosine distance at which the motion of two clips with a signature (stage clip.signature) "
          "is compared");
  d.option("motion", &Options::motion)
      .range(0, 1)
      .help(
          "smallest correlation of the motion of duplicates, at the best start and speed; 1: the embedding "
          "alone decides");
  d.option("keep", &Options::keep)
      .choices({"largest", "longest", "best", "first"})
      .help(
          "copy to keep of two: the one with more pixels, the longer one, the one with the higher `score`, "
          "or the one with the lower key; of equal ones the one with more pixels, the longer one, the one "
          "of a video that is not damaged, with more frames a second, more bits a pixel, more sharpness "
          "(filter.blur), where a difference "
          "of at most 5 %, of frames a second 2 %, counts as none; then the longer one, the one not named as "
          "a copy (\"sea (1)\", \"sea copy\"), then the lower "
          "key. A clip never replaces one that is longer by more than 25 %, whatever the rule, and with "
          "largest and longest all clips of two videos are decided together");
  d.option("score", &Options::score)
      .help("score to compare for keep = \"best\": a name in the facts' scores, for example filter.blur");
  d.option("clusters", &Options::clusters)
      .range(0, 1 << 24)
      .help("number of k-means clusters; 0: one per 1,024 clips, so about 1,024 clips are compared pairwise");
  d.option("iterations", &Options::iterations).range(1, 1000).help("number of k-means iterations");
  d.option("seed", &Options::seed).range(0, 2147483647).help("seed of k-means' initial centres");
  d.option("memory", &Options::memory)
      .bytes()
      .at_least(0)
      .help(
          "limit for what is held of all clips until the last one arrives: their fields and twice their "
          "embeddings; 0: a dedup job's memory, no limit elsewhere");
}

DedupSemantic::DedupSemantic(const Options& o) : options_(o), keep_(keep_of(o.keep)) {
  if (!o.name.empty()) options_.embedding = o.name;
  if (o.keep == "best" && o.score.empty())
    throw Error(KINORA_ERROR_INVALID,
                "dedup.semantic: keep = \"best\" needs a score, for example score = \"filter.blur\"");
}

void DedupSemantic::process(Sample in, const Emit& emit, const Run&) {
  Clip clip = clip_of(std::move(in), options_.keep == "best" ? options_.score : "");
  std::vector<float> vector;
  if (options_.semantic) {
    if (const auto bytes = clip.sample.text(kSignatureField))
      signature_of(*bytes, std::string(clip.sample.key()) + "." + kSignatureField);  // refuses a damaged one
    clip.eps = options_.eps < 0 ? eps_of_embedding(clip.sample, options_.embedding) : options_.eps;
    vector = unit_embedding(clip.sample, options_.embedding, size_);
    size_ = static_cast<int64_t>(vector.size());
  }
  count(clip.sample, vector.size());
  vectors_.push_back(std::move(vector));
  clips_.push_back(std::move(clip));
  emit.hold();
}

// Besides its field, each embedding occupies a row of the matrix of all clips and part of k-means' training
// set.
void DedupSemantic::count(const Sample& sample, size_t numbers) {
  bytes_ += sizeof(Clip) + sample.key().size() + 2 * numbers * sizeof(float);
  for (const auto& field : sample.fields()) bytes_ += field.name.size() + field.bytes.size();
  if (options_.memory == 0 || bytes_ <= static_cast<uint64_t>(options_.memory)) return;
  throw Error(KINORA_ERROR_NO_MEMORY,
              "dedup.semantic: " + std::to_string(clips_.size() + 1) + " clips take " +
                  std::to_string(bytes_) + " bytes, more than memory = " + std::to_string(options_.memory) +
                  "; all clips are compared at once, so give the job more memory or fewer clips");
}

void DedupSemantic::find_exact(const std::vector<size_t>& order, std::vector<Verdict>& verdicts) const {
  std::map<std::string, size_t> first;
  for (const size_t i : order) {
    if (clips_[i].content.empty()) continue;
    const auto [at, is_new] = first.try_emplace(clips_[i].content, i);
    if (!is_new) verdicts[i] = {"dedup.exact", at->second, 1.0};
  }
}

void DedupSemantic::find_near(const std::vector<size_t>& order, std::vector<Verdict>& verdicts,
                              const Run& run) {
  std::vector<size_t> left;
  std::vector<float> vectors;
  for (const size_t i : order)
    if (!verdicts[i].rule) left.push_back(i);
  vectors.reserve(left.size() * static_cast<size_t>(size_));
  for (const size_t i : left) {
    vectors.insert(vectors.end(), vectors_[i].begin(), vectors_[i].end());
    vectors_[i] = {};
  }
  vectors_.clear();
  const auto cluster = clusters_of(vectors, size_, {options_.clusters, options_.iterations, options_.seed});
  double reach = options_.motion < 1 ? options_.reach : 0;
  for (const size_t i : left) reach = std::max(reach, clips_[i].eps);
  const auto near = nearest_before(vectors, size_, cluster, 1 - reach, kMostCompared);
  const auto judge = [&](size_t n) {
    const size_t i = left[n];
    const Signature own = near[n].empty() ? Signature() : signature(i);
    for (size_t c = 0; c < near[n].size() && !verdicts[i].rule; ++c)
      verdicts[i] = compare(i, own, left[static_cast<size_t>(near[n][c].of)], near[n][c].similarity);
    verdicts[i].cluster = cluster[n];
  };
  constexpr size_t kBetweenChecks = 1024;  // of cancellation
  for (size_t begin = 0; begin < left.size(); begin += kBetweenChecks) {
    run.check_cancelled();
    in_threads(run.threads(), begin, std::min(left.size(), begin + kBetweenChecks), judge);
  }
}

Signature DedupSemantic::signature(size_t i) const {
  const auto bytes = clips_[i].sample.text(kSignatureField);
  return bytes && options_.motion < 1 ? signature_of(*bytes, kSignatureField) : Signature();
}

DedupSemantic::Verdict DedupSemantic::compare(size_t i, const Signature& own, size_t of,
                                              double similarity) const {
  if (clips_[i].picture != clips_[of].picture) return {};  // a frame of a video stays next to the video
  const Verdict copy{"dedup.semantic", of, similarity};
  const Signature other = signature(of);
  if (!own.can_be_compared() || !other.can_be_compared() || (own.is_motionless() && other.is_motionless()))
    return similarity >= 1 - clips_[i].eps ? copy : Verdict();
  if (similarity < 1 - options_.reach) return {};
  Verdict out = copy;
  out.motion = align(own, other);
  return out.motion.correlation >= options_.motion ? out : Verdict();
}

// The link from `from` to what it is a copy of, the other way round.
DedupSemantic::Verdict DedupSemantic::turned(const Verdict& link, size_t from, int64_t cluster) {
  Verdict out = link;
  out.of = from;
  out.cluster = cluster;
  if (link.motion.correlation >= 0) {
    out.motion.speed = 1 / link.motion.speed;
    out.motion.offset_s = -link.motion.offset_s / link.motion.speed;
  }
  return out;
}

DedupSemantic::Decided DedupSemantic::decide_videos(const std::vector<Verdict>& verdicts) const {
  Decided out;
  if (keep_ != Keep::largest && keep_ != Keep::longest) return out;
  using Clips = std::set<const Quality*>;
  std::map<std::pair<std::string, std::string>, std::pair<Clips, Clips>> copies;
  for (size_t i = 0; i < clips_.size(); ++i) {
    if (!verdicts[i].rule) continue;
    const Clip *a = &clips_[i], *b = &clips_[verdicts[i].of];
    if (a->video == b->video || a->video.empty() || b->video.empty()) continue;
    if (b->video < a->video) std::swap(a, b);
    auto& [of_a, of_b] = copies[{a->video, b->video}];
    of_a.insert(&a->quality);
    of_b.insert(&b->quality);
  }
  const auto all = [](const Clips& clips, const std::string& video) {
    return together({clips.begin(), clips.end()}, video);
  };
  for (const auto& [videos, clips] : copies)
    out[videos] = is_preferred(all(clips.first, videos.first), all(clips.second, videos.second), keep_);
  return out;
}

bool DedupSemantic::replaces(size_t i, size_t of, const Decided& decided) const {
  const Clip &a = clips_[i], &b = clips_[of];
  if (is_much_longer(a.quality, b.quality)) return true;
  const bool swaps = b.video < a.video;
  const auto found = decided.find(swaps ? std::pair(b.video, a.video) : std::pair(a.video, b.video));
  if (found != decided.end()) return found->second != swaps;
  return is_preferred(a.quality, b.quality, keep_);
}

// The clips and what they are copies of are a forest, whose roots stay. Where a clip replaces the root above it, the
// links between them turn round.
void DedupSemantic::settle(const std::vector<size_t>& order, std::vector<Verdict>& verdicts) const {
  const Decided decided = decide_videos(verdicts);
  std::vector<size_t> above(clips_.size()), longest(clips_.size());
  std::iota(above.begin(), above.end(), size_t{0});
  longest = above;
  const auto root = [&](size_t i) {
    while (above[i] != i) i = above[i] = above[above[i]];
    return i;
  };
  const auto is_longer = [&](size_t a, size_t b) {
    return clips_[a].quality.seconds > clips_[b].quality.seconds;
  };
  for (const size_t i : order) {
    if (!verdicts[i].rule) continue;
    const size_t was = root(verdicts[i].of);
    const bool turns =
        replaces(i, was, decided) && !is_much_longer(clips_[longest[was]].quality, clips_[i].quality);
    const size_t stays = turns ? i : was, goes = turns ? was : i;
    above[goes] = stays;
    if (is_longer(longest[goes], longest[stays])) longest[stays] = longest[goes];
    if (!turns) continue;
    size_t from = i;
    for (Verdict link = std::exchange(verdicts[i], {.cluster = verdicts[i].cluster}); link.rule;) {
      const size_t to = link.of;
      link = std::exchange(verdicts[to], turned(link, from, verdicts[to].cluster));
      from = to;
    }
  }
  for (size_t i = 0; i < clips_.size(); ++i) verdicts[i].stays = root(i);
}

nlohmann::json DedupSemantic::duplicate(const Verdict& verdict, const std::vector<std::string>& keys) {
  nlohmann::json out{{"of", keys[verdict.stays]}, {"similarity", verdict.similarity}};
  if (verdict.of != verdict.stays) out["nearest"] = keys[verdict.of];
  const Aligned& motion = verdict.motion;
  if (motion.correlation >= 0)
    out["motion"] = {
        {"correlation", motion.correlation}, {"speed", motion.speed}, {"offset_s", motion.offset_s}};
  out["why"] = "copy of " + keys[verdict.of] + ": " + why(verdict.rule, verdict.similarity, motion);
  return out;
}

void DedupSemantic::finish(const Emit& emit, const Run& run) {
  std::vector<size_t> order(clips_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return comes_before(clips_[a].quality, clips_[b].quality, keep_); });
  std::vector<Verdict> verdicts(clips_.size());
  if (options_.exact) find_exact(order, verdicts);
  if (options_.semantic && !clips_.empty()) {
    omp_set_num_threads(std::max(1, run.threads()));
    find_near(order, verdicts, run);
  }
  settle(order, verdicts);
  std::vector<std::string> keys;
  for (const Clip& clip : clips_) keys.emplace_back(clip.sample.key());
  for (size_t i = 0; i < clips_.size(); ++i) {
    const Verdict& verdict = verdicts[i];
    Sample& sample = clips_[i].sample;
    auto facts = json_field(sample, "json");
    if (verdict.cluster >= 0) facts["dedup"] = {{"cluster", verdict.cluster}};
    if (verdict.rule) facts["duplicate"] = duplicate(verdict, keys);
    const bool drops = verdict.rule && options_.mode == "on";
    if (verdict.rule && !drops) facts["scores"][verdict.rule] = verdict.similarity;
    sample.set("json", json_text(facts));
    if (drops)
      emit.drop(std::move(sample), verdict.rule, verdict.similarity);
    else
      emit(std::move(sample));
  }
  clips_.clear();
  bytes_ = 0;
}

}  // namespace kinora::dedup

using kinora::dedup::DedupSemantic;
KINORA_COMPONENT(DedupSemantic)

namespace kinora::dedup {
namespace {

double number(const nlohmann::json& facts, const std::string& name) {
  const auto at = facts.find(name);
  return at != facts.end() && at->is_number() ? at->get<double>() : -1;
}

std::string text(const nlohmann::json& facts, const std::string& name) {
  const auto at = facts.find(name);
  return at != facts.end() && at->is_string() ? at->get<std::string>() : "";
}

// Size of the clip's file.
double bytes_of(const Sample& sample) {
  if (const auto size = sample.text(kBytesField)) return std::strtod(std::string(*size).c_str(), nullptr);
  const auto mp4 = sample.text("mp4");
  return mp4 ? static_cast<double>(mp4->size()) : 0;
}

}  // namespace

Clip clip_of(Sample sample, const std::string& score) {
  const auto facts = json_field(sample, "json");
  const std::string key(sample.key());
  Clip clip{std::move(sample)};
  clip.quality = quality_of(facts, score, bytes_of(clip.sample), key);
  clip.video = text(facts, "film");
  clip.picture = facts.contains("picture");
  if (clip.sample.text(kDamagedField)) clip.quality.whole = 0;
  if (const auto content = clip.sample.text("sha256")) clip.content = *content;
  return clip;
}

double eps_of_embedding(const Sample& sample, const std::string& name) {
  auto facts = json_field(sample, "json");
  const auto about = object_in(facts, "embeddings").find(name);
  const double eps = about != facts["embeddings"].end() && about->is_object() ? number(*about, "eps") : -1;
  return eps >= 0 && eps <= 2 ? eps : kDefaultEps;
}

std::vector<float> unit_embedding(const Sample& sample, const std::string& name, int64_t size) {
  const std::string field = name + ".npy", file = std::string(sample.key()) + "." + field;
  const auto bytes = sample.text(field.c_str());
  if (!bytes)
    throw Error(KINORA_ERROR_NOT_FOUND,
                file + " is missing; add a stage embed.* with this name before dedup.semantic");
  FloatArray read = read_npy(*bytes, file);
  if (read.shape.size() != 1) throw Error(KINORA_ERROR_DATA, file + ": it must have one dimension");
  if (size && read.columns() != size)
    throw Error(KINORA_ERROR_DATA, file + ": it has " + std::to_string(read.columns()) +
                                       " numbers, the earlier clips " + std::to_string(size) +
                                       "; embed all with the same model");
  double square = 0;
  for (const float v : read.values) square += double{v} * v;
  if (!std::isfinite(square) || square <= 0)
    throw Error(KINORA_ERROR_DATA,
                file + ": the vector must be finite and not all zeros; embed the clip again");
  for (float& v : read.values) v = static_cast<float>(v / std::sqrt(square));
  return std::move(read.values);
}

}  // namespace kinora::dedup
KINORA_PLUGIN(DedupSemantic)
