#include "plugins/jobs/curation/search/standing.hpp"

#include "plugins/jobs/curation/search/copies.hpp"

namespace kinora::core {
namespace {

std::set<std::string> rejected_in(const std::filesystem::path& data) {
  const auto job = std::filesystem::weakly_canonical(data).parent_path();
  std::set<std::string> out;
  const EditHistory edits = read_edits(job / kEditsFile, kept_in(job));
  for (const auto& [key, edit] : edits.edited())
    if (edit.keep == false) out.insert(key);
  return out;
}

}  // namespace

Standing Standings::of(const ClipRef& clip) {
  auto known = folders_.find(clip.folder);
  if (known == folders_.end())
    known = folders_.emplace(clip.folder, Folder{copies_in(clip.folder), rejected_in(clip.folder)}).first;
  const Folder& folder = known->second;
  return folder.rejected.contains(clip.key) ? Standing::rejected
         : folder.copies.contains(clip.key) ? Standing::copy
                                            : Standing::used;
}

Embedded those(Embedded all, const std::function<bool(const ClipRef&)>& is_wanted) {
  Embedded out;
  out.size = all.size;
  out.encoder = std::move(all.encoder);
  for (size_t i = 0; i < all.clips.size(); ++i) {
    if (!is_wanted(all.clips[i])) continue;
    const auto row = all.row(i);
    out.vectors.insert(out.vectors.end(), row.begin(), row.end());
    out.clips.push_back(std::move(all.clips[i]));
  }
  return out;
}

}  // namespace kinora::core
