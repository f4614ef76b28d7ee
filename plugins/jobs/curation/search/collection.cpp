#include "plugins/jobs/curation/search/collection.hpp"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/base/regular_file.hpp"
#include "core/config/document.hpp"
#include "core/io/byte_source.hpp"
#include "core/run/run_file.hpp"
#include "kinora/error.hpp"
#include "kinora/npy.hpp"
#include "plugins/jobs/curation/clip_files.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string text_of_file(const fs::path& file) { return or_throw(read_text(file.string(), UINT64_MAX)); }

json text_json(const fs::path& folder) { return parse_facts(text_of_file(folder / "text.json")); }

// The data folder whose captions the embed-text job in `folder` has embedded; empty: unknown.
fs::path embedded_by(const fs::path& folder) {
  const json about = text_json(folder);
  const std::string clips = text_in(about, "clips");
  return clips.empty() ? fs::path() : fs::weakly_canonical(folder / clips);
}

// Skips folders that cannot be read.
std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.is_directory(error) && entry.path().filename().string().front() != '.')
      out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

// Keys must be relative and stay below the data folder, which belongs to another job of the run:
// "../clips/data".
bool is_text_facts(const json& about) {
  const auto stays_below = [](const json& key) {
    if (!key.is_string()) return false;
    const fs::path path = key.get<std::string>();
    return path.is_relative() && path == path.lexically_normal() && !path.empty() && *path.begin() != "..";
  };
  const fs::path clips = text_in(about, "clips");
  const std::string job = clips.parent_path().filename();
  return check_job_name(job) && clips == fs::path("..") / job / "data" && about.contains("encoder") &&
         about.contains("keys") && about["keys"].is_array() &&
         std::all_of(about["keys"].begin(), about["keys"].end(), stays_below);
}

FloatArray embedding(const fs::path& file) { return read_npy(text_of_file(file), file.string()); }

// Appends a row; all rows of one embedding must have one size.
void append(Embedded& to, ClipRef clip, std::span<const float> row, const fs::path& file) {
  if (to.size == 0) to.size = static_cast<int64_t>(row.size());
  if (static_cast<int64_t>(row.size()) != to.size)
    throw Error(
        KINORA_ERROR_DATA,
        fmt::format("{}: it has {} numbers, others of this name have {}; search the folders of one model",
                    file.string(), row.size(), to.size));
  to.clips.push_back(std::move(clip));
  to.vectors.insert(to.vectors.end(), row.begin(), row.end());
}

// "classic" for "classic.npy"; empty for "shots.classic.npy", the embeddings of a video's shots.
std::string embedding_name(const std::string& field) {
  if (!field.ends_with(".npy")) return "";
  const std::string name = field.substr(0, field.size() - 4);
  return name.find('.') == name.npos ? name : "";
}

}  // namespace

std::string why_no_captions(const fs::path& job) {
  const std::string file = text_in(object_in_file(job / "job.json"), "file");
  const auto run = file.empty() ? Result<Document>(Failure{}) : Document::read(file);
  const json jobs = run ? run->root().value("job", json()) : json();
  for (const json& one : jobs.is_array() ? jobs : json::array())
    if (text_in(one, "kind") == "embed-text")
      return fmt::format("the captions are not embedded yet: job '{}' (embed-text) of {} has not run here",
                         text_in(one, "name"), fs::path(file).filename().string());
  return "no captions are embedded here; add a job of kind embed-text that reads the curate job to the run "
         "file";
}

std::string Captions::of(const ClipRef& clip) {
  auto edits = edits_.find(clip.folder);
  if (edits == edits_.end())
    edits = edits_
                .emplace(clip.folder, read_edits(clip.folder.parent_path() / kEditsFile,
                                                 kept_in(clip.folder.parent_path())))
                .first;
  if (auto edited = edits->second.now(clip.key).caption) return *std::move(edited);
  auto text = read_regular_file(clip.folder / (clip.key + ".txt"));
  return text ? *std::move(text) : "";
}

// A folder that was found in two ways is added once.
void Collection::add_text(const fs::path& folder) {
  const auto same = [&](const fs::path& other) { return fs::equivalent(other, folder); };
  if (std::none_of(texts_.begin(), texts_.end(), same)) texts_.push_back(folder);
}

void Collection::add_texts_beside(const fs::path& job) {
  const fs::path at = fs::canonical(job);
  std::error_code error;
  for (const auto& beside : folders_in(at.parent_path()))
    if (fs::is_regular_file(beside / "text.json", error) && embedded_by(beside) == at / "data")
      add_text(beside);
}

// Adds a job's folder, a folder of files, or the folder of a run, whose jobs are its direct subfolders.
void Collection::add(const fs::path& folder) {
  const auto job = [&](const fs::path& at) {
    std::error_code error;
    const bool clips = fs::is_directory(at / "data", error),
               texts = fs::is_regular_file(at / "text.json", error);
    if (clips) data_.push_back(at / "data");
    if (texts) add_text(at);
    return clips || texts;
  };
  if (job(folder)) {
    if (fs::is_directory(folder / "data")) add_texts_beside(folder);
    return;
  }
  const bool files =
      std::any_of(fs::directory_iterator(folder), fs::directory_iterator(), [](const auto& entry) {
        return embedding_name(entry.path().filename().string()) != "" || entry.path().extension() == ".npy";
      });
  if (files) data_.push_back(folder);
  for (const auto& at : folders_in(folder)) job(at);
}

Collection::Collection(const std::vector<fs::path>& folders) {
  for (const auto& folder : folders) {
    const size_t before = data_.size() + texts_.size();
    if (fs::is_directory(folder)) add(folder);
    if (data_.size() + texts_.size() == before)
      throw Error(KINORA_ERROR_INVALID,
                  folder.string() + ": no clips found; give the folder of a run or of its curate job");
  }
  std::set<std::string> names;
  for (const auto& data : data_)
    for (const auto& [key, fields] : clips_in(data))
      for (const auto& [field, file] : fields)
        if (const auto name = embedding_name(field); !name.empty()) names.insert(name);
  names_.assign(names.begin(), names.end());
}

Embedded Collection::pictures(const std::string& name) const {
  Embedded out;
  for (const auto& data : data_)
    for (const auto& [key, fields] : clips_in(data))
      if (const auto at = fields.find(name + ".npy"); at != fields.end()) {
        const FloatArray read = embedding(at->second);
        append(out, {key, data}, read.row(0), at->second);
      }
  if (out.clips.empty())
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("no clip has an embedding '{}'; {}", name,
                            names_.empty() ? "put a stage embed.* into the curate job"
                                           : fmt::format("there {}: {}", names_.size() == 1 ? "is" : "are",
                                                         fmt::join(names_, ", "))));
  return out;
}

Embedded Collection::captions() const {
  Embedded out;
  for (const auto& folder : texts_) {
    const json about = text_json(folder);
    const FloatArray rows = embedding(folder / "text.npy");
    const bool whole = is_text_facts(about) && rows.shape.size() == 2 &&
                       rows.rows() == static_cast<int64_t>(about["keys"].size());
    if (!whole)
      throw Error(
          KINORA_ERROR_DATA,
          (folder / "text.json").string() +
              " was not written by an embed-text job or is damaged; remove the folder and run the job again");
    if (!out.encoder.is_null() && out.encoder != about["encoder"]) {
      log_warn("{}: its captions were embedded by another encoder; they are left out", folder.string());
      continue;
    }
    out.encoder = about["encoder"];
    const fs::path clips = (folder / about["clips"].get<std::string>()).lexically_normal();
    for (int64_t i = 0; i < rows.rows(); ++i)
      append(out, {about["keys"][static_cast<size_t>(i)].get<std::string>(), clips}, rows.row(i),
             folder / "text.npy");
  }
  if (out.clips.empty())
    throw Error(KINORA_ERROR_INVALID,
                why_no_captions(data_.empty() ? fs::path() : data_.front().parent_path()));
  return out;
}

}  // namespace kinora::core
