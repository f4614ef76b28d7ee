// Everything that the page requests, without HTTP: the catalogue, the edits and their queries under one lock.
#pragma once
#include <memory>
#include <mutex>

#include "apps/studio/edit_journal.hpp"
#include "apps/studio/meaning.hpp"
#include "apps/studio/query.hpp"

namespace kinora::studio {

using Parameters = std::multimap<std::string, std::string>;

// The source of a clip's image.
struct PictureSource {
  std::filesystem::path path;
  int64_t first = 0;  // first frame of the range, and its number of frames
  int64_t frames = 0;
  bool is_preview = false;  // path is a WebP that is sent unchanged
};

// [any-thread] All functions. Throws Error: KINORA_ERROR_NOT_FOUND for an unknown clip, KINORA_ERROR_INVALID
// for an invalid request, KINORA_ERROR_IO if an edit could not be saved.
class Studio {
 public:
  // Throws Error if `folder` contains no curate job. `encode`: encodes texts for search by meaning.
  Studio(const std::filesystem::path& folder, std::string author, Meaning::Encode encode);

  // {"title", "author", "jobs", "version", "fields", "counts", "films", "reasons", "undo", "redo",
  // "unreadable", "wrong", "search": {"text", "why_not_text", "pictures"}, "live"}; films: counts of input
  // videos only.
  nlohmann::json state();
  // {"total", "films", "from", "version", "by", "why", "rows"}: `count` rows of the selection, starting at
  // `from`, and how many of the selection are input videos. by: how it was searched, "meaning", "words",
  // "pictures" or "". why: why not by meaning. Queries that search wait for Meaning, without the lock.
  nlohmann::json clips(const Parameters&);
  nlohmann::json histograms(const Parameters&);
  // {"place"}: index of a clip "id" in the selection, or -1.
  nlohmann::json place(const Parameters&);
  // The clip's row, facts, range, own values and edits.
  nlohmann::json clip(const Parameters&);
  nlohmann::json shots(const Parameters&);
  // {"id", "set"} -> as clip(). Undo and redo return the clip that they changed.
  nlohmann::json edit(const nlohmann::json& request);
  nlohmann::json undo();
  nlohmann::json redo();

  // Why the edits of the first job that has a problem cannot be saved; "": all edits can.
  std::string refusal() const;
  Media media(const std::string& id);
  PictureSource picture(const std::string& id);

 private:
  using Lock = std::lock_guard<std::mutex>;
  using Ranked = std::shared_ptr<const Ranking>;
  void refresh(bool at_once = false);
  // Result of the query's search; null: there is none, or it searches by words. Takes the lock for a moment.
  Ranked ranked(const Query&);
  // Stores the clips found for shelf(). Throws Error(KINORA_ERROR_NOT_FOUND) if the clip cannot be compared.
  void search(const Query&, const Ranked&);
  Shelf shelf() const;
  Change edits_of(const Clip&) const;
  const Clip& need(const std::string& id) const;
  const std::vector<size_t>& rows(const Parameters&, const Query&);
  // found: the search that the row is part of; null: none.
  nlohmann::json row(size_t clip, const Found* found) const;
  nlohmann::json detail(const Clip&) const;
  nlohmann::json stepped(bool back);
  nlohmann::json reasons() const;

  std::mutex mutex_;
  std::filesystem::path folder_;
  std::vector<JobFolder> jobs_;
  Catalogue catalogue_;
  std::vector<EditJournal> journals_;  // one per job
  std::string stamp_;
  int64_t version_ = 1;  // changes whenever earlier answers may be stale
  int64_t looked_ = 0;   // time of the last check, milliseconds of the steady clock
  int64_t reading_ = 0;  // time to read the catalogue, milliseconds
  // The last selection, reused by the windows of one view.
  Parameters selected_by_;
  int64_t selected_at_ = 0;
  std::vector<size_t> selected_;
  int64_t films_selected_ = 0;
  // The last search.
  struct {
    Query query;
    Ranked ranked;
    int64_t at = 0;
    Found found;
    std::string by, why;
  } searched_;
  Meaning meaning_;
};

}  // namespace kinora::studio
