#include "apps/studio/edited_catalogue.hpp"

#include <algorithm>
#include <chrono>

#include "core/base/status.hpp"

namespace kinora::studio {
namespace {

constexpr int64_t kRest = 10;  // pause between reads of a running job, as a multiple of the reading time

int64_t milliseconds() {
  using namespace std::chrono;
  return duration_cast<std::chrono::milliseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace

EditedCatalogue::EditedCatalogue(std::vector<JobFolder> jobs, const std::string& author)
    : jobs_(std::move(jobs)) {
  for (size_t job = 0; job < jobs_.size(); ++job)
    journals_.emplace_back(jobs_[job].path / core::kEditsFile, author, kept_in(catalogue_, job));
  refresh(true);
}

void EditedCatalogue::refresh(bool at_once) {
  std::ranges::for_each(jobs_, require_folder);
  const int64_t now = milliseconds();
  const bool is_running = std::any_of(jobs_.begin(), jobs_.end(),
                                      [](const auto& job) { return source_of(job) != Source::items; });
  if (!at_once && now - looked_ < (is_running ? std::max<int64_t>(5000, kRest * reading_) : 1000)) return;
  looked_ = now;
  std::string stamp = stamp_of(jobs_);
  const bool is_new = stamp != stamp_;
  stamp_ = std::move(stamp);
  if (is_new) {
    catalogue_ = read_catalogue(jobs_);
    bounds_ = bounds_of(jobs_);
    std::ranges::move(bounds_of(catalogue_), std::back_inserter(bounds_));
    reading_ = milliseconds() - now;
    ++readings_;
    ++version_;
  }
  for (auto& journal : journals_) version_ += core::or_throw(is_new ? journal.reread() : journal.refresh());
}

nlohmann::json EditedCatalogue::up_to_date(const std::function<nlohmann::json()>& f) {
  auto out = core::catching(f);
  if (out) return std::move(*out);
  if (out.failure().code != KINORA_ERROR_IO) throw Error(out.failure().code, out.failure().message);
  refresh(true);
  return f();
}

const Clip& EditedCatalogue::need(const std::string& id) const {
  const Clip* clip = catalogue_.find(id);
  if (clip) return *clip;
  const bool is_awaited = std::ranges::any_of(
      jobs_, [&](const auto& job) { return id.starts_with(job.name + "/") && begins_anew(job); });
  throw Error(KINORA_ERROR_NOT_FOUND,
              id + (is_awaited ? ": the job makes its clips anew, and has not made this one again yet"
                               : ": no such clip"));
}

Change EditedCatalogue::edits_of(const Clip& clip) const {
  return journals_[clip.job].history().now(clip.key);
}

std::vector<std::string> EditedCatalogue::copies_left(const Clip& clip) const {
  std::vector<std::string> out = clip.copies;
  std::erase_if(out, [&](const auto& id) { return edits_of(need(id)).keep == false; });
  return out;
}

bool EditedCatalogue::can_be_accepted(const Clip& clip) const {
  const bool is_lost = clip.end == End::failed || clip.consumed || (clip.is_video && clip.end != End::kept);
  return !is_lost || !stored_media(catalogue_, clip).path.empty();
}

}  // namespace kinora::studio
