// Building blocks that several sections of the page share.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "plugins/jobs/report/film.hpp"
#include "plugins/jobs/report/html.hpp"
#include "plugins/jobs/report/media.hpp"
#include "plugins/jobs/report/record.hpp"
#include "plugins/jobs/report/stills.hpp"

namespace kinora::core::report {

// The output and the inputs of the sections.
struct Page {
  Html out;
  const RunRecord& run;
  StillSource still;
  Media media;
  std::map<const JobRecord*, Curation> curations;  // of every curate job
};

template <class F>
void section(Page& page, std::string_view id, std::string_view title, F&& inside) {
  page.out.in("section", {{"id", id}, {"aria-labelledby", std::string(id) + "-title"}}, [&] {
    page.out.leaf("h2", {{"id", std::string(id) + "-title"}}, title);
    inside();
  });
}

// Writes a job's name if the run has several of its kind, and what is missing if it did not finish. False:
// the job left nothing to show.
bool job_heading(Page& page, const JobRecord& job);

void note(Html& out, std::string_view text);

struct Fact {
  std::string name, value;
};
void fact_list(Html& out, const std::vector<Fact>& facts);
// The counts and figures of a summary, except those that every summary has.
std::vector<Fact> summary_facts(const JobRecord& job);

struct Column {
  std::string_view head;
  bool numeric = false;
};
// A cell's text; class "kept", "filtered", "failed" or "dim".
struct Cell {
  std::string text;
  std::string_view style = {};
};
void table(Html& out, std::string_view caption, const std::vector<Column>& columns,
           const std::vector<std::vector<Cell>>& rows);

// A picture, or a blank of the same shape with the reason why it is missing.
struct Picture {
  std::string alt;
  int width = 0, height = 0;
};
void picture(Html& out, const Embedded& image, const Picture& facts);

}  // namespace kinora::core::report
