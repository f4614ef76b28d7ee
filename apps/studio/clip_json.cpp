#include "apps/studio/clip_json.hpp"

#include "core/base/facts.hpp"

namespace kinora::studio {
namespace {

using nlohmann::json;

json edit_json(const Edit& edit) {
  json out{{"time", edit.time}, {"author", edit.author}, {"set", set_of(edit)}};
  if (edit.kind != core::EditKind::edit) out["step"] = edit.kind == core::EditKind::undo ? "undo" : "redo";
  return out;
}

}  // namespace

json number_or_null(double value) { return std::isnan(value) ? json() : json(value); }

json row_json(const EditedCatalogue& data, size_t index, const Found* found) {
  const Catalogue& catalogue = data.catalogue();
  const Clip& clip = catalogue.clips[index];
  const Change edits = data.edits_of(clip), now = values_now(clip, edits);
  json out{{"id", clip.id},
           {"key", clip.key},
           {"video", clip.video},
           {"place", catalogue.place_of(clip)},
           {"is_video", clip.is_video},
           {"is_picture", clip.is_picture},
           {"end", outcome_of(clip)},
           {"caption", *now.caption},
           {"captioned", edits.caption && *edits.caption != clip.caption},
           {"decision", decision_of(edits)},
           {"tags", *now.tags},
           {"duration_s", number_or_null(catalogue.value("duration_s", index))}};
  if (found && !found->similarity.empty()) out["similarity"] = number_or_null(found->similarity[index]);
  if (clip.end != End::kept) out["stage"] = clip.stage, out["reason"] = clip.reason;
  if (!std::isnan(clip.score)) out["score"] = clip.score;
  if (!clip.copy_of.empty()) out["copy_of"] = clip.copy_of;
  if (!clip.copy_rule.empty()) out["reason"] = clip.copy_rule, out["score"] = number_or_null(clip.copy_score);
  if (!clip.copy_why.empty()) out["copy_why"] = clip.copy_why;
  out["reason_now"] = edits.reason.value_or("");
  if (edits.trim) {
    out["trim"] = *edits.trim;
    const double fps = catalogue.value("fps", index);
    out["trimmed_s"] = number_or_null(static_cast<double>(edits.trim->end - edits.trim->first) / fps);
  }
  const Clip* original = catalogue.find(data.jobs()[clip.job].name + "/" + clip.copy_of);
  out["copy_id"] = original && original != &clip ? original->id : "";
  out["copies"] = data.copies_left(clip);
  out["unstored"] = out["decision"] == "accepted" && stored_media(catalogue, clip).path.empty();
  if (!clip.left_out.empty()) {
    out["left_out"] = json::array();
    for (const auto& [by, rule] : clip.left_out)
      out["left_out"].push_back({{"job", catalogue.choosers[by].name}, {"rule", rule}});
  }
  if (!std::isnan(clip.bound)) out["bound"] = {{clip.is_most ? "at_most" : "at_least", clip.bound}};
  return out;
}

json detail_json(const EditedCatalogue& data, const Clip& clip, const std::vector<std::string>& embeddings) {
  const Catalogue& catalogue = data.catalogue();
  const auto index = static_cast<size_t>(&clip - catalogue.clips.data());
  const json item = item_of(catalogue, clip);
  json history = json::array();
  for (const Edit* edit : data.journals()[clip.job].history().of(clip.key))
    history.push_back(edit_json(*edit));
  const Media media = media_of(catalogue, clip);
  json out = row_json(data, index, nullptr);
  out["own_caption"] = clip.caption;
  out["facts"] = item.value("facts", json());
  out["damaged"] = item.value("damaged", "");
  out["at_work"] = source_of(data.jobs()[clip.job]) != Source::items;
  const Clip* video = catalogue.find(catalogue.video_of(clip));
  out["url"] = video ? video->url : "";
  out["history"] = std::move(history);
  out["version"] = data.version();
  out["fps"] = number_or_null(catalogue.value("fps", index));
  out["start_s"] = number_or_null(catalogue.value("start_s", index));
  out["end_s"] = number_or_null(catalogue.value("end_s", index));
  out["media"] = media.path.empty() ? "" : media.is_video ? "video" : "clip";
  out["type"] = media.type;
  out["ending"] = media.ending;
  out["acceptable"] = data.can_be_accepted(clip);
  const auto stored = stored_media(catalogue, clip).path;
  out["stored"] = !stored.empty();
  std::error_code error;
  if (const auto bytes = std::filesystem::file_size(stored, error); !error) out["bytes"] = bytes;
  out["embeddings"] = json::array();
  for (const auto& name : embeddings)
    if (!stored_file(catalogue, clip, name + ".npy").empty()) out["embeddings"].push_back(name);
  return out;
}

}  // namespace kinora::studio
