#include "apps/studio/meaning.hpp"

#include <algorithm>
#include <chrono>

#include "core/base/log.hpp"

namespace kinora::studio {
namespace {

namespace fs = std::filesystem;

constexpr auto kLook = std::chrono::seconds(3);  // between checks for new results of the run
constexpr size_t kKnown = 8;  // cached answers: the windows and histograms of one view need the same one
constexpr size_t kVectors = 16384;  // texts whose vectors are cached
constexpr size_t kEncoded = 256;    // edited captions that one question waits for

bool is_job(const fs::path& folder, const std::vector<JobFolder>& jobs) {
  return jobs.size() == 1 && jobs.front().path == folder;
}

// Folders of embed-text jobs, sorted by name.
std::vector<fs::path> text_jobs(const fs::path& run) {
  std::vector<fs::path> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run, error))
    if (entry.path().filename().string().front() != '.' &&
        fs::is_regular_file(entry.path() / "text.json", error))
      out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

Meaning::Meaning(const fs::path& folder, std::vector<JobFolder> jobs, Encode encode)
    : run_(is_job(fs::canonical(folder), jobs) ? fs::canonical(folder).parent_path() : fs::canonical(folder)),
      jobs_(std::move(jobs)),
      encode_(std::move(encode)),
      offer_{false, "the embeddings are being read", {}},
      thread_([this] { work(); }) {}

Meaning::~Meaning() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  work_.notify_all();
  done_.notify_all();
  thread_.join();
}

Offer Meaning::offer() const {
  const std::lock_guard lock(mutex_);
  return offer_;
}

std::shared_ptr<const Ranking> Meaning::ask(Question question) {
  std::unique_lock lock(mutex_);
  const auto same = [&](const auto& asked) { return asked->question == question; };
  if (const auto known = std::find_if(known_.begin(), known_.end(), same); known != known_.end())
    return (*known)->answer;
  auto waiting = std::find_if(asked_.begin(), asked_.end(), same);
  const auto mine = waiting != asked_.end()
                        ? *waiting
                        : std::make_shared<PendingQuestion>(PendingQuestion{question, nullptr});
  if (waiting == asked_.end()) asked_.push_front(mine);
  work_.notify_one();
  done_.wait(lock, [&] { return mine->answer || stops_; });
  static const auto kStopped = std::make_shared<const Ranking>(Ranking{{}, "the studio is stopping", {}, 0});
  return mine->answer ? mine->answer : kStopped;
}

void Meaning::work() {
  look();
  std::unique_lock lock(mutex_);
  while (!stops_) {
    const bool is_asked = work_.wait_for(lock, kLook, [this] { return stops_ || !asked_.empty(); });
    if (stops_) return;
    const auto next = is_asked ? asked_.front() : nullptr;
    lock.unlock();
    look();
    auto answered = next ? std::make_shared<const Ranking>(answer(next->question)) : nullptr;
    lock.lock();
    if (!next) continue;
    next->answer = std::move(answered);
    asked_.remove(next);
    known_.push_front(next);
    if (known_.size() > kKnown) known_.pop_back();
    done_.notify_all();
  }
}

std::string Meaning::stamp() const {
  std::string out = stamp_of(jobs_);
  std::error_code error;
  for (const auto& job : text_jobs(run_))
    out += job.string() +
           std::to_string(fs::last_write_time(job / "text.json", error).time_since_epoch().count()) + ";";
  return out;
}

// Updates the searches that are possible. Vectors are read on demand.
void Meaning::look() {
  std::string now = stamp();
  if (now == stamp_) return;
  stamp_ = std::move(now);
  collection_.reset();
  captions_.reset();
  pictures_.clear();
  Offer offer;
  const auto found = core::catching([&] {
    std::vector<fs::path> folders = text_jobs(run_);
    offer.text = !folders.empty();
    for (const auto& job : jobs_)
      if (fs::is_directory(job.path / "data")) folders.push_back(job.path);
    collection_ = std::make_unique<core::Collection>(folders);
    offer.pictures = collection_->names();
  });
  if (!found) core::log_info("studio: no search by meaning: {}", found.failure().message);
  std::stable_partition(offer.pictures.begin(), offer.pictures.end(),
                        [](const auto& n) { return n == "classic"; });
  if (!offer.text) offer.why_not_text = core::why_no_captions(jobs_.empty() ? run_ : jobs_.front().path);
  const std::lock_guard lock(mutex_);
  offer_ = std::move(offer);
  known_.clear();
}

Ranking Meaning::answer(const Question& question) {
  auto out = core::catching([&] {
    if (!collection_) throw Error(KINORA_ERROR_NOT_FOUND, "the run has no embeddings");
    if (question.map) return map(question);
    return question.text.empty() ? to_clip(question) : to_text(question);
  });
  return out ? std::move(*out) : Ranking{{}, out.failure().message, {}, 0};
}

const core::Embedded& Meaning::captions() {
  if (!captions_) {
    auto read = std::make_unique<core::Embedded>(collection_->captions());
    captions_ = std::move(read);
  }
  return *captions_;
}

const core::Embedded& Meaning::pictures(const std::string& name) {
  const auto known = pictures_.find(name);
  return known != pictures_.end() ? known->second
                                  : pictures_.emplace(name, collection_->pictures(name)).first->second;
}

std::string Meaning::id_of(const core::ClipRef& clip) {
  auto at = job_of_.find(clip.folder);
  if (at == job_of_.end()) {
    std::error_code error;
    const fs::path data = fs::weakly_canonical(clip.folder, error);
    std::string job;
    for (const auto& one : jobs_)
      if (fs::weakly_canonical(one.path / "data", error) == data) job = one.name + "/";
    at = job_of_.emplace(clip.folder, std::move(job)).first;
  }
  return at->second.empty() ? "" : at->second + clip.key;
}

// Encodes the text and the edited captions that have no vector yet. Edited captions beyond the limit of one
// question keep their earlier vectors until the next questions.
void Meaning::encode(const Question& question, const core::Embedded& all) {
  if (vectors_.size() > kVectors) vectors_.clear();
  const std::string by = all.encoder.dump() + '\n';  // vectors depend on the encoder
  std::vector<std::string> texts;
  const auto add = [&](const std::string& text) {
    if (!vectors_.contains(by + text)) texts.push_back(text);
  };
  add(question.text);
  for (const auto& [id, caption] : question.edited)
    if (texts.size() < kEncoded && !caption.empty()) add(caption);
  if (texts.empty()) return;
  auto made = encode_(all.encoder, texts);
  for (size_t i = 0; i < texts.size() && i < made.size(); ++i) vectors_[by + texts[i]] = std::move(made[i]);
}

// Says which similarities are too small for a match.
void Meaning::add_matches(const core::Embedded& all, Ranking& out) {
  std::vector<double> sorted;
  for (const auto& [id, score] : out.similarity) sorted.push_back(score);
  std::ranges::sort(sorted);
  out.remark = core::nothing_matches(all, sorted.back());
  const auto first = std::ranges::partition_point(
      sorted, [&](double score) { return !core::nothing_matches(all, score).empty(); });
  if (first != sorted.begin()) out.unmatched = *std::prev(first);
}

Ranking Meaning::to_text(const Question& question) {
  const core::Embedded& all = captions();
  encode(question, all);
  const std::string by = all.encoder.dump() + '\n';
  const std::vector<float> query = vectors_.at(by + question.text);
  Ranking out;
  const auto scores = core::cosines(all, query);
  for (size_t i = 0; i < scores.size(); ++i)
    if (auto id = id_of(all.clips[i]); !id.empty()) out.similarity.emplace(std::move(id), scores[i]);
  core::Embedded edited{{}, {}, all.size, {}};
  std::vector<const std::string*> ids;
  for (const auto& [id, caption] : question.edited) {
    if (caption.empty()) out.similarity.erase(id);
    const auto vector = vectors_.find(by + caption);
    if (caption.empty() || vector == vectors_.end()) continue;
    edited.clips.emplace_back();
    edited.vectors.insert(edited.vectors.end(), vector->second.begin(), vector->second.end());
    ids.push_back(&id);
  }
  const auto changed = core::cosines(edited, query);
  for (size_t i = 0; i < ids.size(); ++i) out.similarity[*ids[i]] = changed[i];
  if (out.similarity.empty()) out.why = "the run's embeddings belong to captions of other clips";
  if (out.why.empty()) add_matches(all, out);
  return out;
}

std::string Meaning::embedding_of(const Question& question) const {
  const auto& names = collection_->names();
  const bool has_classic = std::find(names.begin(), names.end(), "classic") != names.end();
  return !question.embedding.empty()    ? question.embedding
         : has_classic || names.empty() ? "classic"
                                        : names.front();
}

Ranking Meaning::map(const Question& question) {
  const core::Embedded& all = pictures(embedding_of(question));
  Ranking out;
  out.all = all.clips.size();
  const size_t step = (out.all + kMapped - 1) / kMapped;
  std::vector<float> rows;
  for (size_t i = 0; i < out.all; i += step) {
    out.places.push_back({id_of(all.clips[i]), {}});
    rows.insert(rows.end(), all.row(i).begin(), all.row(i).end());
  }
  const auto places = principal_places(rows, static_cast<size_t>(all.size));
  for (size_t i = 0; i < places.size(); ++i) out.places[i].second = places[i];
  return out;
}

Ranking Meaning::to_clip(const Question& question) {
  const std::string name = embedding_of(question);
  const core::Embedded& all = pictures(name);
  for (size_t i = 0; i < all.clips.size(); ++i) {
    if (id_of(all.clips[i]) != question.like) continue;
    Ranking out;
    const auto scores = core::cosines(all, all.row(i));
    for (size_t j = 0; j < scores.size(); ++j)
      if (auto id = id_of(all.clips[j]); !id.empty()) out.similarity.emplace(std::move(id), scores[j]);
    return out;
  }
  throw Error(KINORA_ERROR_NOT_FOUND,
              question.like + ": the clip has no embedding '" + name + "', so similar clips cannot be found");
}

}  // namespace kinora::studio
