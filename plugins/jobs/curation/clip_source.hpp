// Where a job gets its clips from: jobs of its run, or the folder of a finished job of another run, which its
// input names.
#pragma once
#include <filesystem>
#include <string>

namespace kinora::core {

class JobCheck;
class JobContext;
struct JobSpec;
struct RunFile;

struct ClipSource {
  std::filesystem::path curated;  // folder of the curate job that has made the clips
  // decisions.jsonl of the dedup or select job that says which of them the job gets; empty: all kept ones
  std::filesystem::path decisions;
};

// Throws Error(KINORA_ERROR_INVALID) if the job reads no curate job, directly or not, or if the clips have
// changed since the job of another run decided about them.
ClipSource clip_source(const RunFile&, const JobSpec&);

// Adds a problem of `input` if the folders that it names cannot be read.
void check_clip_source(JobCheck&);

// Writes into the summary of a dedup or select job whose clips it has decided about: "curated", the curate job's folder
// relative to the run's, and "curated_sha256", what that had kept.
void note_curated(JobContext&, const std::filesystem::path& curated);

}  // namespace kinora::core
