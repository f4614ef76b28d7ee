// What the page asks for, without HTTP: the catalogue, the edits and their queries under one lock.
#pragma once
#include <memory>
#include <mutex>

#include "apps/studio/edit_journal.hpp"
#include "apps/studio/query.hpp"

namespace kinora::studio {

using Parameters = std::multimap<std::string, std::string>;

// Where a picture of a clip comes from.
struct PictureSource {
  std::filesystem::path path;
  int64_t first = 0;  // frame of the range, and how many the range has
  int64_t frames = 0;
  bool is_preview = false;  // path is a WebP to be sent as it is
};

// [any-thread] All functions. Throws Error: KINORA_NOT_FOUND for an unknown clip, KINORA_INVALID for a wrong
// request, KINORA_IO if an edit could not be saved.
class Studio {
 public:
  // Throws Error if there is no curate job in `folder`. `search`: what a text finds; words of captions
  // without.
  Studio(const std::filesystem::path& folder, std::string author, Search search = {});

  // {"title", "author", "jobs", "version", "fields", "counts", "reasons", "undo", "redo", "unreadable",
  // "live"}
  nlohmann::json state();
  // {"total", "from", "version", "rows"}: the window "from", "count" of what the query selects.
  nlohmann::json clips(const Parameters&);
  nlohmann::json histograms(const Parameters&);
  // {"place"}: of a clip "id" in what the query selects, or -1.
  nlohmann::json place(const Parameters&);
  // Its row, facts, range, own values and edits.
  nlohmann::json clip(const Parameters&);
  nlohmann::json shots(const Parameters&);
  // {"id", "set"} -> as clip(). Undo and redo give the clip that they changed.
  nlohmann::json edit(const nlohmann::json& request);
  nlohmann::json undo();
  nlohmann::json redo();

  Media media(const std::string& id);
  PictureSource picture(const std::string& id);

 private:
  using Lock = std::lock_guard<std::mutex>;
  void refresh(bool at_once = false);
  Shelf shelf() const;
  Change edits_of(const Clip&) const;
  const Clip& need(const std::string& id) const;
  const std::vector<size_t>& rows(const Parameters&);
  nlohmann::json row(size_t clip) const;
  nlohmann::json detail(const Clip&) const;
  nlohmann::json stepped(bool back);
  nlohmann::json reasons() const;

  std::mutex mutex_;
  std::filesystem::path folder_;
  Search search_;
  std::vector<JobFolder> jobs_;
  Catalogue catalogue_;
  std::vector<EditJournal> journals_;  // one a job
  std::string stamp_;
  int64_t version_ = 1;  // another one whenever anything that was answered may be stale
  int64_t looked_ = 0;   // when, milliseconds of the steady clock
  // The last selection, for the windows of one view.
  Parameters selected_by_;
  int64_t selected_at_ = 0;
  std::vector<size_t> selected_;
};

}  // namespace kinora::studio
