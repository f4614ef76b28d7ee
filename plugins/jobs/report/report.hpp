// kind = "report": one self-contained page about the run.
#pragma once
#include "core/run/job.hpp"

namespace kinora::core {

struct ReportOptions {
  std::string title;
  static void describe(Describe<ReportOptions>& d) {
    d.name("report").help("Writes report.html, one file that shows what every job did");
    d.option("title", &ReportOptions::title).help("empty: the run's name");
  }
};

void run_report(JobContext&);

}  // namespace kinora::core
