// The data of the page's sections: JSON that the page's scripts draw. Lists are cut to what the page shows, with the number of
// the rest in "more_...".
#pragma once
#include "plugins/jobs/report/film.hpp"
#include "plugins/jobs/report/media.hpp"
#include "plugins/jobs/report/stills.hpp"

namespace kinora::core::report {

// Where pictures come from.
struct Pictures {
  StillSource still;
  Media media;
};

// The contact sheet: every shot of every video, with its outcome and a picture.
json films_of(Pictures&, const JobRecord&, const Curation&);
// Outcomes of all inputs and clips in summary.json and in items.jsonl, the rules that filtered, and the failures.
json outcomes_of(const JobRecord&, const Curation&);
// {"loss": a curve or null, "small": [curves]} from metrics.jsonl.
json curves_of(const JobRecord&);
// Work of each rank of a launch; empty for a single process.
json ranks_of(const JobRecord&);
// Frames of originals and of their reconstructions by a tokenizer.
json pairs_of(Pictures&, const JobRecord&);
// {"list", "more"}: the generated videos with their settings and frames.
json videos_of(Pictures&, const JobRecord&);

// Outcome of an item, as far as it has one: end, stage, reason, score, bound.
json ending_of(const Item&);
json or_null(const std::optional<double>&);
// {name, value} of the counts and figures of a summary, except those that every summary has.
json facts_of(const json& summary);

}  // namespace kinora::core::report
