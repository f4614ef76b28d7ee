// Builds the report: one HTML file that needs no other file and no network.
#pragma once
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "plugins/jobs/report/pictures.hpp"
#include "plugins/jobs/report/record.hpp"

namespace kinora::core::report {

// The data that the page shows, and the run in one line of plain text: "1 source video, 12 shots, ...".
struct Gathered {
  json data;
  std::string line;
};
// Calls `still` for a picture of every displayed shot.
Gathered gather(const RunRecord& run, StillSource still);

// The page with the data in it. The line is written as markup: it contains only words of this program and
// numbers.
std::string make_page(const Gathered&);

// JSON as text that an HTML script element can contain: ASCII without "<", whatever the data.
std::string script_safe(const json& data);

// The sections of the page, as data that its scripts draw. Lists are cut to what the page shows, with the
// number of the rest in "more".

// Moving previews of kept clips, spread over all that have one, as far as a page can hold: [{"key", "uri", "still",
// "is_left_out", "width", "height"}]; still: the first frame, as "uri" is. left_out: keys of those that a later job
// left out, which come last.
json wall_of(Pictures&, const JobRecord&, const Curation&, const std::set<std::string>& left_out);
// The contact sheet: the shots of each video, with their outcomes and pictures; videos that failed come first. Those
// that failed without a shot are {"failed": {"list": [an ending and a key], "more"}}.
// left_out: keys of kept clips that a later job left out: shots and tiles of such clips alone say so.
json source_videos_of(Pictures&, const JobRecord&, const Curation&, const std::set<std::string>& left_out);
// By URL, for videos whose files have one name: the shortest ends of their paths that differ, as "day2/a.mp4".
std::map<std::string, std::string> paths_of_namesakes(const Curation&);
// Outcomes of all inputs and clips in summary.json and in items.jsonl, the rules that filtered, and the
// failures.
json outcomes_of(const JobRecord&, const Curation&);
// Distributions of the scores (distribution_of), each with its "name", "title" and "unit", which may be
// empty; those that a bound used come first.
json scores_of(const RunRecord&, const JobRecord&, const Curation&);
// The clips that came into a select job, step by step, and those that each step removed: {"steps": [{"rule", "in",
// "removed"}], "tables": [{"name", "rows", "rows_of_clips", "clips"}], "bins": [{"name", "clips"}],
// "more_bins", "sets": [{"name", "clips", "share", "asked"}]}; share: of the clips that are in a set, 0 to 1,
// and the one that the run file asks for.
json selection_of(const JobRecord&);
// {"loss": a curve or null, "small": [curves]} from metrics.jsonl.
json curves_of(const JobRecord&);
// Work of each rank of a launch; empty for a single process.
json ranks_of(const JobRecord&);
// The error of rounding to few bits in each layer, as in summary.json; empty: nothing was measured.
json rounding_of(const JobRecord&);
// Frames of originals and of their reconstructions by a tokenizer.
json pairs_of(Pictures&, const JobRecord&);
// {"list", "more"}: the generated videos with their settings, frames and, of long ones, curves of their drift.
json videos_of(Pictures&, const JobRecord&);

// Outcome of an item, as far as it has one: end, stage, reason, score, bound.
json ending_of(const Item&);
json or_null(const std::optional<double>&);
// {name, value} of the counts and figures of a summary, except those that every summary has; "clips kept" and
// such of its members "clips", "dropped" and "left_out".
json facts_of(const json& summary);

}  // namespace kinora::core::report
