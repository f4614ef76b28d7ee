// The options of a curate job.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "kinora/options.hpp"

namespace kinora::core {

struct CurateOptions {
  int64_t memory = int64_t{1} << 30;
  int64_t threads = 0;
  bool recursive = false, all_files = false, pictures = false, hash = true;
  std::string duplicates = "drop";
  std::vector<std::string> prune;
  double lease = 0;
  int64_t lease_inputs = 10'000;
  std::string lease_at;
  static void describe(Describe<CurateOptions>& d) {
    d.name("curate").help("Runs stages over videos and stores what leaves the last stage as files");
    d.option("memory", &CurateOptions::memory)
        .how_only()
        .bytes()
        .at_least(1 << 20)
        .help("most memory of the samples between stages");
    d.option("threads", &CurateOptions::threads)
        .how_only()
        .range(0, 4096)
        .help("number of worker threads; 0: one per core");
    d.option("recursive", &CurateOptions::recursive)
        .help("read folders and prefixes with all their subfolders");
    d.option("all_files", &CurateOptions::all_files)
        .help(
            "read every file of folders and prefixes, also with endings that are not of videos, such as "
            ".txt, .jpg, .csv, .part");
    d.option("pictures", &CurateOptions::pictures)
        .help(
            "read the JPEG, PNG and WebP files of folders and prefixes as well, by their endings, with stage "
            "picture.read");
    d.option("hash", &CurateOptions::hash)
        .help("read every video once more for its SHA-256: adds the fact sha256 and finds duplicates");
    d.option("duplicates", &CurateOptions::duplicates)
        .choices({"drop", "keep"})
        .help("drop: of videos with equal bytes use the first and filter the others by ingest.duplicate");
    d.option("prune", &CurateOptions::prune)
        .how_only()
        .help(
            "videos, folders or patterns whose results are removed and that the input no longer includes; "
            "the "
            "results of other such videos stay. Relative to the run file");
    d.option("lease", &CurateOptions::lease)
        .how_only()
        .range(0, 86400)
        .unit("s")
        .help(
            "term of a lease, by which processes with one output folder share the job; one that is silent "
            "for two "
            "terms loses its inputs to the others; 0: one process does the job");
    d.option("lease_inputs", &CurateOptions::lease_inputs)
        .how_only()
        .range(1, 1'000'000'000)
        .help("number of inputs of a lease");
    d.option("lease_at", &CurateOptions::lease_at)
        .how_only()
        .help(
            "URI of a folder in S3 that has the leases and what is done, for processes whose output folders "
            "are their own; empty: the output folder has them");
  }
};

}  // namespace kinora::core
