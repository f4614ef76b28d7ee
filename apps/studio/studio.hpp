// Everything that the page requests, without HTTP: one lock over the catalogue with its edits and over what queries
// select of it.
#pragma once
#include <mutex>

#include "apps/studio/edited_catalogue.hpp"
#include "apps/studio/meaning.hpp"
#include "apps/studio/query_results.hpp"
#include "apps/studio/views.hpp"

namespace kinora::studio {

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
  // folder: of a run, of a curate job, or of a select or dedup job, which opens its run. Throws Error if
  // it contains no curate job. `encode`: encodes texts for search by meaning.
  Studio(const std::filesystem::path& folder, const std::string& author, Meaning::Encode encode);

  // {"title", "author", "jobs", "choosers", "funnel", "version", "seen", "fields", "scores", "counts",
  // "review": {"all", "accepted", "rejected", "run_file", "out"}, "videos", "reasons", "tags", "facets", "views",
  // "undo", "redo", "unreadable", "wrong", "search": {"text", "why_not_text", "pictures"}, "live", "anew"};
  // anew: names of jobs that run from scratch (begins_anew); videos: counts of input videos only; choosers:
  // names of select jobs; funnel: funnel_json of the run; reasons: the latest nine in the order of their
  // first use, then earlier ones; review: of the items to review, and the run that packs them; tags: [name,
  // clips] in the order of their first use; facets: at most six texts with 2 to 12 values, {"field", "name": as
  // conditions write it}; seen: number of edits per job, for edit().
  nlohmann::json state();
  // {"total", "videos", "hidden", "from", "version", "by", "why", "unmatched", "matching", "shows",
  // "rows"}: `count` rows of the selection, starting at `from`, and how many of the selection are input
  // videos. shows: the number that the view is about, "value" of a row. version: of the selection; a
  // request with `at`, an earlier answer's version, gets that selection although edits have changed what
  // the query selects, if the studio still has it. hidden: how many copies would be in an empty view, if
  // copies were shown. by: how it was searched, "meaning", "words", "pictures" or "". why: why not by
  // meaning. unmatched: the largest similarity that is too small for a match, null: none; matching: how
  // many of the selection are above. Queries that search wait for Meaning, without the lock.
  nlohmann::json clips(const Parameters&);
  // {"version", "ids"}: the same for `count` ids, by default all.
  nlohmann::json ids(const Parameters&);
  // [{"field", "low", "high", "whole", "all", "shown", "edges", "bounds": [{"job", "select", "stage",
  // "option", "is_most", "is_strict", "value"}]}]; job: of the stage, or the select job, whose name is
  // "select", too; option: of the stage, or the fact of the select job's condition.
  nlohmann::json histograms(const Parameters&);
  // "field", "side" (least or most), "value", "select" (name of a select job, else of stages) -> {"gone",
  // "back", "where"}: what changes if the bound is moved there, and the condition of a select job.
  nlohmann::json bound(const Parameters&);
  // "of", an embedding, "" for the first; "colour", a fact, "film", or "" for outcomes -> {"ids", "x", "y",
  // "in", "values", "captions", "all", "names", "texts"}: places of clips; in: whether the view has the clip;
  // all: how many clips have the embedding, of which a map shows kMapped; names: of embeddings; texts: of
  // facts. Waits for Meaning.
  nlohmann::json map(const Parameters&);
  // {"where"}: the selection as a line of a run file.
  nlohmann::json where(const Parameters&);
  // {"place"}: index of a clip "id" in the selection, or -1.
  nlohmann::json place(const Parameters&);
  // {"id"} of the next clip of the selection to review, at the index "from" or later, else from the
  // start; "": none.
  nlohmann::json next(const Parameters&);
  // The clip's row, facts, size of the stored file ("bytes"), range, own values and edits.
  nlohmann::json clip(const Parameters&);
  nlohmann::json shots(const Parameters&);
  // {"id" or "ids", "set", "tag", "untag", "toggle", "copies", "seen", "caption_seen"} -> {"changed",
  // "keys", "conflicts": [{"key", "author", "set"}], "overruled": {"accepted", "rejected"}, "untagged",
  // "unstorable", "gone", "at_work", "version", "clip"}. All clips are one step of undo. toggle: tags to
  // remove if all clips have them, else to add; copies: also of copies that would take their place; seen:
  // from state(); conflicts: clips left alone because of later edits by others; overruled: how many clips
  // had the opposite decision before; unstorable: clips that cannot be accepted; gone: ids without a
  // clip; at_work: a job has not ended, and may yet make them; keys: the first few changed; clip: as
  // clip(), if the request is for one. Undo and redo give the same.
  nlohmann::json edit(const nlohmann::json& request);
  // {"ids"} -> {"copies", "keys", "replaced", "accepted"}: how many copies of these clips are not among
  // them, the first few, how many of these clips such a copy would replace, and how many are accepted.
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
  using Ranked = QueryResults::Ranked;
  // Result of the query's search. Takes the lock for a moment.
  Ranked ranked(const Query&);
  // All others are called with the lock.
  // The selection of a query, after reading what has changed.
  const QueryResults::View& view(const Parameters&, const Query&, const Ranked&);
  // Clips of a request, and those that would take their place if `with_copies`; each once.
  std::vector<const Clip*> targets(const nlohmann::json& request, bool with_copies, size_t& gone) const;
  // Changes the clips, job by job.
  Saved change(const std::vector<const Clip*>&, EditRequest, const nlohmann::json& seen);
  nlohmann::json saved(const Saved&, const Clip* clip) const;
  nlohmann::json colour_of(const std::string& by, size_t index);
  nlohmann::json stepped(bool back);

  std::mutex mutex_;
  std::filesystem::path folder_;
  EditedCatalogue data_;
  QueryResults results_;
  ViewFile saved_views_;
  Meaning meaning_;
};

}  // namespace kinora::studio
