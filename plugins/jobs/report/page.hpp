// The report: one HTML file that needs nothing else, no network and no script.
#pragma once
#include <string>

#include "plugins/jobs/report/record.hpp"
#include "plugins/jobs/report/stills.hpp"

namespace kinora::core::report {

struct Made {
  std::string page;
  std::string line;  // what the run amounts to, in plain text: "1 film, 12 shots, ..."
};

// `still` is asked for a picture of every shot that is shown.
Made make_page(const RunRecord& run, StillSource still);

// The style sheet of the page.
const char* style_sheet();

}  // namespace kinora::core::report
