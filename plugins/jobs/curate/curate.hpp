// kind = "curate": films in, clips out, by stages on an engine.
#pragma once
#include "core/run/job_plugin.hpp"

namespace kinora::core {

struct CurateOptions {
  int64_t memory = int64_t{1} << 30;
  int64_t threads = 0;
  bool recursive = false, all_files = false, hash = true;
  std::string duplicates = "drop", unseen = "keep";
  static void describe(Describe<CurateOptions>& d) {
    d.name("curate").help("Runs stages over films; what leaves the last stage is kept as files");
    d.option("memory", &CurateOptions::memory).how_only()
        .bytes()
        .at_least(1 << 20)
        .help("bound on the samples between stages");
    d.option("threads", &CurateOptions::threads).how_only().range(0, 4096).help("worker threads; 0: one a core");
    d.option("recursive", &CurateOptions::recursive).help("folders and prefixes also give what lies in folders below");
    d.option("all_files", &CurateOptions::all_files)
        .help("folders and prefixes also give files that are no films by their endings, as .txt, .jpg, .csv, .part");
    d.option("hash", &CurateOptions::hash)
        .help("read every film once more for its SHA-256: fact sha256, and duplicates are known");
    d.option("duplicates", &CurateOptions::duplicates)
        .choices({"drop", "keep"})
        .help("drop: of films with equal bytes the first is used, the others are filtered by ingest.duplicate");
    d.option("unseen", &CurateOptions::unseen).how_only()
        .choices({"keep", "drop"})
        .help("films of earlier runs whose folder or disk is not there, empty or unreadable now: keep what is done of them, or "
              "drop it for good");
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
