#include "dedup_stage.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <omp.h>

#include "clusters.hpp"
#include "kinora/curation.hpp"
#include "kinora/plugin.hpp"

namespace kinora::dedup {

void DedupSemantic::describe(Describe<Options>& d) {
  d.name("dedup.semantic")
      .help(
          "Drops duplicate clips: equal bytes, or nearly equal embeddings (k-means, then cosines within "
          "each cluster)");
  d.option("name", &Options::name).help("name of the embedding: field NAME.npy");
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
          "largest cosine distance of duplicates: a clip is dropped if its cosine with one preferred by "
          "keep is at least 1 - eps; below 0: 0.002 for the embedding classic, which is a histogram, "
          "0.01 for others, as in Cosmos-Curate; NeMo Curator uses 0.1");
  d.option("keep", &Options::keep)
      .choices({"largest", "longest", "best", "first"})
      .help(
          "which clip of a pair to keep: the one with more pixels, the longer one, the one with the "
          "higher `score`, or the one with the lower key");
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

DedupSemantic::DedupSemantic(const Options& o) : options_(o) {
  if (o.eps < 0) options_.eps = o.name == "classic" ? 0.002 : 0.01;
  if (o.keep == "best" && o.score.empty())
    throw Error(KINORA_ERROR_INVALID,
                "dedup.semantic: keep = \"best\" needs a score, for example score = \"filter.blur\"");
}

void DedupSemantic::process(Sample in, const Emit& emit, const Run&) {
  Clip clip = clip_of(std::move(in), options_.keep, options_.score);
  std::vector<float> vector;
  if (options_.semantic) {
    vector = unit_embedding(clip.sample, options_.name, size_);
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

void DedupSemantic::find_near(const std::vector<size_t>& order, std::vector<Verdict>& verdicts) {
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
  const auto near = nearest_before(vectors, size_, cluster);
  for (size_t n = 0; n < left.size(); ++n) {
    Verdict& verdict = verdicts[left[n]];
    verdict.cluster = cluster[n];
    if (near[n].of < 0 || near[n].similarity < 1 - options_.eps) continue;
    verdict.rule = "dedup.semantic";
    verdict.of = left[static_cast<size_t>(near[n].of)];
    verdict.similarity = near[n].similarity;
  }
}

// A clip is dropped because of a clip ranked before it, which may itself be dropped because of a third.
void DedupSemantic::follow(const std::vector<size_t>& order, std::vector<Verdict>& verdicts) {
  for (const size_t i : order) verdicts[i].stays = verdicts[i].rule ? verdicts[verdicts[i].of].stays : i;
}

void DedupSemantic::finish(const Emit& emit, const Run& run) {
  std::vector<size_t> order(clips_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return before(clips_[a], clips_[b]); });
  std::vector<Verdict> verdicts(clips_.size());
  if (options_.exact) find_exact(order, verdicts);
  if (options_.semantic && !clips_.empty()) {
    omp_set_num_threads(std::max(1, run.threads()));
    find_near(order, verdicts);
  }
  follow(order, verdicts);
  std::vector<std::string> keys;
  for (const Clip& clip : clips_) keys.emplace_back(clip.sample.key());
  for (size_t i = 0; i < clips_.size(); ++i) {
    const Verdict& verdict = verdicts[i];
    Sample& sample = clips_[i].sample;
    auto facts = json_field(sample, "json");
    if (verdict.cluster >= 0) facts["dedup"] = {{"cluster", verdict.cluster}};
    if (verdict.rule) facts["duplicate"] = {{"of", keys[verdict.stays]}, {"similarity", verdict.similarity}};
    if (verdict.rule && verdict.of != verdict.stays) facts["duplicate"]["nearest"] = keys[verdict.of];
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

constexpr double kMissing = -std::numeric_limits<double>::infinity();

double number(const nlohmann::json& facts, const std::string& name) {
  const auto at = facts.find(name);
  return at != facts.end() && at->is_number() ? at->get<double>() : kMissing;
}

}  // namespace

Clip clip_of(Sample sample, const std::string& keep, const std::string& score) {
  const auto facts = json_field(sample, "json");
  const double width = number(facts, "width"), height = number(facts, "height"),
               length = number(facts, "duration_s"),
               size = width > 0 && height > 0 ? width * height : kMissing;
  Clip clip{std::move(sample), {}, {}};
  if (const auto content = clip.sample.text("sha256")) clip.content = *content;
  if (keep == "best")
    clip.worth = {number(facts.value("scores", nlohmann::json::object()), score), size, length};
  else if (keep == "longest")
    clip.worth = {length, size};
  else if (keep == "largest")
    clip.worth = {size, length};
  return clip;
}

bool before(const Clip& a, const Clip& b) {
  if (a.worth != b.worth) return a.worth > b.worth;
  return a.sample.key() < b.sample.key();
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
