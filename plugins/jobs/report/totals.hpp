// The run in figures.
#pragma once
#include "plugins/jobs/report/film.hpp"

namespace kinora::core::report {

// -1: the run has no job of this kind.
struct Totals {
  int64_t films = -1, films_filtered = 0, films_failed = 0, shots = -1, kept = -1, filtered = -1, failed = -1,
          shards = -1, tokenizer_steps = -1, steps = -1, videos = -1;
  double seconds = 0;
  std::string finished;  // when the last job ended
};

Totals totals_of(const RunRecord&, const std::map<const JobRecord*, Curation>&);
// The curations of all curate jobs.
std::map<const JobRecord*, Curation> curations_of(const RunRecord&);

struct Figure {
  std::string name, value, more;  // "clips kept", "12", "2 filtered, 1 failed"
};
std::vector<Figure> figures_of(const Totals&);
// The figures as one line of text.
std::string line_of(const Totals&);

}  // namespace kinora::core::report
