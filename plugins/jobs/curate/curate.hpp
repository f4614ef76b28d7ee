// kind = "curate": videos in, clips out, through stages on an engine.
#pragma once
#include "core/run/job_plugin.hpp"

namespace kinora::core {

struct CurateOptions {
  int64_t memory = int64_t{1} << 30;
  int64_t threads = 0;
  bool recursive = false, all_files = false, hash = true;
  std::string duplicates = "drop";
  std::vector<std::string> prune;
  static void describe(Describe<CurateOptions>& d) {
    d.name("curate").help("Runs stages over videos and stores what leaves the last stage as files");
    d.option("memory", &CurateOptions::memory).how_only()
        .bytes()
        .at_least(1 << 20)
        .help("most memory of the samples between stages");
    d.option("threads", &CurateOptions::threads).how_only().range(0, 4096).help("number of worker threads; 0: one per core");
    d.option("recursive", &CurateOptions::recursive).help("read folders and prefixes with all their subfolders");
    d.option("all_files", &CurateOptions::all_files)
        .help("read every file of folders and prefixes, also with endings that are not of videos, such as .txt, .jpg, .csv, .part");
    d.option("hash", &CurateOptions::hash)
        .help("read every video once more for its SHA-256: adds the fact sha256 and finds duplicates");
    d.option("duplicates", &CurateOptions::duplicates)
        .choices({"drop", "keep"})
        .help("drop: of videos with equal bytes use the first and filter the others by ingest.duplicate");
    d.option("prune", &CurateOptions::prune).how_only()
        .help("videos, folders or patterns whose results are removed if the input no longer leads to them; the results of other "
              "such videos stay. Relative to the run file");
  }
};

class Curate final : public JobType {
 public:
  using Options = CurateOptions;
  static JobParts parts();
  void run(JobContext&) const override;
  void check(JobCheck&) const override;
  bool lists_inputs() const override { return true; }
  bool keeps_work() const override { return true; }
  std::string inputs_identity(const RunFile&, const JobSpec&) const override;
  void foresee(Runtime&, const RunFile&, const JobSpec&, const std::filesystem::path& folder,
               int64_t retries) const override;
};

}  // namespace kinora::core
