// Everything that the page requests, without HTTP: the catalogue, the edits and their queries under one lock.
#pragma once
#include <list>
#include <memory>
#include <mutex>

#include "apps/studio/bounds.hpp"
#include "apps/studio/edit_journal.hpp"
#include "apps/studio/meaning.hpp"
#include "apps/studio/query.hpp"
#include "apps/studio/views.hpp"
#include "apps/studio/where.hpp"

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
  // folder: of a run, of a curate job, or of a select or dedup job, which opens its run. Throws Error if it contains no
  // curate job. `encode`: encodes texts for search by meaning.
  Studio(const std::filesystem::path& folder, std::string author, Meaning::Encode encode);

  // {"title", "author", "jobs", "choosers", "version", "seen", "fields", "scores", "counts", "films", "reasons", "tags", "views",
  // "undo", "redo", "unreadable", "wrong", "search": {"text", "why_not_text", "pictures"}, "live", "anew"}; anew: names of jobs
  // that run from scratch (begins_anew); films:
  // counts of input videos only; choosers: names of select jobs; reasons: the latest nine in the order of their first use, then earlier ones;
  // tags: [name, clips] in the order of their first use; seen: number of edits per job, for edit().
  nlohmann::json state();
  // {"total", "films", "hidden", "from", "version", "by", "why", "shows", "rows"}: `count` rows of the selection, starting at
  // `from`, and how many of the selection are input videos. shows: the number that the view is about, "value" of a
  // row. version: of the selection; a request with `at`, an earlier answer's version, gets that selection although
  // edits have changed what the query selects, if the studio still has it. hidden: how many copies would be in an empty view,
  // if copies were shown. by: how it was searched, "meaning",
  // "words", "pictures" or "". why: why not by meaning. Queries that search wait for Meaning, without the lock.
  nlohmann::json clips(const Parameters&);
  // {"version", "ids"}: the same for `count` ids, by default all.
  nlohmann::json ids(const Parameters&);
  // [{"field", "low", "high", "whole", "all", "shown", "bounds": [{"job", "select", "stage", "option", "is_most",
  // "is_strict", "value"}]}]; job: of the stage, or the select job, whose name is "select", too; option: of the stage, or the
  // fact of the select job's condition.
  nlohmann::json histograms(const Parameters&);
  // "field", "side" (least or most), "value", "select" (name of a select job, else of stages) -> {"gone", "back", "where"}:
  // what changes if the bound is moved there, and the condition of a select job.
  nlohmann::json bound(const Parameters&);
  // "of", an embedding, "" for the first; "colour", a fact, "film", or "" for outcomes -> {"ids", "x", "y", "in", "values",
  // "all", "names", "texts"}: places of clips; in: whether the view has the clip; all: how many clips have the
  // embedding, of which a map shows kMapped; names: of embeddings; texts: of facts. Waits for Meaning.
  nlohmann::json map(const Parameters&);
  // {"where"}: the selection as a line of a run file.
  nlohmann::json where(const Parameters&);
  // {"place"}: index of a clip "id" in the selection, or -1.
  nlohmann::json place(const Parameters&);
  // The clip's row, facts, size of the stored file ("bytes"), range, own values and edits.
  nlohmann::json clip(const Parameters&);
  nlohmann::json shots(const Parameters&);
  // {"id" or "ids", "set", "tag", "untag", "toggle", "copies", "seen", "caption_seen"} -> {"changed", "keys",
  // "conflicts": [{"key", "author", "set"}], "untagged", "unstorable", "gone", "at_work", "version", "clip"}. All clips are
  // one step of undo. toggle: tags to remove if all clips have them, else to add; copies: also of copies that would take
  // their place; seen: from state(); conflicts: clips left alone because of later edits by others; unstorable:
  // clips that cannot be accepted; gone: ids without a clip; at_work: a job has not
  // ended, and may yet make them; keys: the first few changed; clip: as clip(), if the
  // request is for one. Undo and redo give the same.
  nlohmann::json edit(const nlohmann::json& request);
  // {"ids"} -> {"copies", "keys", "replaced"}: how many copies of these clips are not among them, the first few, and how
  // many of these clips such a copy would replace.
  nlohmann::json copies(const nlohmann::json& request);
  // {"name", "view"}: saves a view, the parameters of a query as the page writes them; view null removes it.
  // Returns all as state() does.
  nlohmann::json save_view(const nlohmann::json& request);
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
  // f's answer; if an item's line has moved because its job has begun or ended meanwhile, the answer after reading all again.
  nlohmann::json up_to_date(const std::function<nlohmann::json()>& f);
  // Result of the query's search; null: there is none, or it searches by words. Takes the lock for a moment.
  Ranked ranked(const Query&);
  // Stores the clips found for shelf(). Throws Error(KINORA_ERROR_NOT_FOUND) if the clip cannot be compared.
  void search(const Query&, const Ranked&);
  // With the query's search and condition; without a query, all clips.
  Shelf shelf() const;
  Shelf shelf(const Query&);
  Change edits_of(const Clip&) const;
  const Clip& need(const std::string& id) const;
  // The clips that a query selected at a version.
  struct View {
    Parameters by;
    int64_t at = 0;
    std::vector<size_t> rows;
    int64_t films = 0;
  };
  // Selects, or returns the selection that the page names by `at`. The caller holds the lock.
  const View& view(const Parameters&, const Query&, const Ranked&);
  // Number of copies that an empty view would have if they were shown.
  size_t hidden_in(Query, const View&);
  // Clips of a request, and those that would take their place if `with_copies`; each once.
  std::vector<const Clip*> targets(const nlohmann::json& request, bool with_copies, size_t& gone) const;
  std::vector<std::string> copies_left(const Clip&) const;
  bool can_be_accepted(const Clip&) const;
  // Changes the clips, job by job.
  Saved change(const std::vector<const Clip*>&, Wish, const nlohmann::json& seen);
  nlohmann::json saved(const Saved&, const Clip* clip) const;
  // found: the search that the row is part of; null: none.
  nlohmann::json row(size_t clip, const Found* found) const;
  nlohmann::json detail(const Clip&) const;
  nlohmann::json colour_of(const std::string& by, size_t index);
  nlohmann::json stepped(bool back);
  nlohmann::json reasons() const;
  nlohmann::json tags(const Counts&) const;
  nlohmann::json seen() const;

  std::mutex mutex_;
  std::filesystem::path folder_;
  std::vector<JobFolder> jobs_;
  Catalogue catalogue_;
  std::vector<StageBound> bounds_;
  std::vector<EditJournal> journals_;  // one per job
  std::string stamp_;
  int64_t version_ = 1;    // changes whenever earlier answers may be stale
  int64_t looked_ = 0;     // time of the last check, milliseconds of the steady clock
  int64_t reading_ = 0;    // time to read the catalogue, milliseconds
  std::list<View> views_;  // the latest first; the windows of a page belong to one of them
  Facts facts_;
  ViewFile saved_views_;
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
