// Any bytes as the comment in a stranger's video, and as the files of a stranger's run folder that a
// search reads: settings of the right types, or one plain error; never another kind of component, nor a file
// that the user has not named.
#include <cstdlib>

#include "apps/kinora/video_comment.hpp"
#include "core/run/job_folder.hpp"
#include "core/run/job_results.hpp"
#include "kinora/error.hpp"
#include "kinora/npy.hpp"
#include "plugins/jobs/curation/drops.hpp"
#include "plugins/jobs/curation/search/caption_encoder.hpp"
#include "plugins/jobs/curation/search/collection.hpp"
#include "tests/fuzz/files.hpp"
#include "tests/support/shipped_job.hpp"

namespace {

namespace core = kinora::core;
using core::json;

const core::Registry& registry() {
  static const core::Registry all = core::Registry::scan(core::search_folders({}));
  return all;
}

template <class F>
void plainly(F&& f) {
  try {
    f();
  } catch (const kinora::Error& e) {
    if (*e.what() == 0) std::abort();
  }
}

const core::JobSpec& generate_job() {
  static const core::JobSpec job = [] {
    core::JobSpec out;
    out.kind = kinora::test::shipped_job("generate");
    out.options = core::or_throw(core::Options::make(*out.kind, {{"image", "/own.png"}})).values();
    const auto* sampler = core::or_throw(registry().find("sampler/flow-euler"));
    out.components.push_back(
        {"sampler", sampler->id, core::or_throw(core::Options::make(*sampler, {})), "", {}});
    return out;
  }();
  return job;
}

void as_comment(const std::string& text) {
  plainly([&] {
    core::JobSpec job = generate_job();
    core::take_settings(registry(), core::read_video_comment("x.mp4", text), {}, job);
    for (const auto& option : job.kind->options) {
      const json &now = job.options.at(option.name), own = generate_job().options.at(option.name);
      const bool is_file = option.type == core::OptionType::path || option.type == core::OptionType::paths;
      if (is_file && now != own && now != "") std::abort();
    }
    if (!job.components.at(0).id.starts_with("sampler/")) std::abort();
  });
}

void as_run(const kinora::fuzz::Folder& folder, const uint8_t* data, size_t size) {
  const auto captions = folder.path() / "captions";
  folder.write("captions/text.json", data, size);
  folder.write("captions/summary.json", data, size);
  folder.write("captions/decisions.jsonl", data, size);
  folder.write("captions/job.json", data, size);
  plainly([&] {
    const auto found = core::Collection({captions}).captions();
    for (const auto& clip : found.clips)
      if (!clip.media().lexically_normal().string().starts_with(folder.path().string() + "/")) std::abort();
    const auto encoder = core::read_caption_encoder(registry(), found.encoder);
    core::require_safe(registry(), encoder);
    if (!encoder.words.starts_with("stage/text.") || !encoder.text.starts_with("model/")) std::abort();
  });
  core::KnownTexts known(captions, json::object());
  for (const auto& decisions : core::decisions_in(folder.path())) core::copies_by(decisions);
  plainly([&] { core::finished(captions, "00"); });
  plainly([&] { core::failures_in(captions); });
  plainly([&] { core::earlier_results(captions, "00"); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const kinora::fuzz::Folder folder;
  static const bool once = [] {
    std::filesystem::create_directories(folder.path() / "captions");
    const std::string rows = kinora::to_npy(std::vector<float>{1, 0, 0, 1}, {2, 2});
    folder.write("captions/text.npy", reinterpret_cast<const uint8_t*>(rows.data()), rows.size());
    // Nesting deeper than the stack would crash any code that copies or writes the value.
    std::string deep = R"({"job": "film", "options": {}, "x": )" + std::string(400000, '[');
    deep += std::string(400000, ']') + "}";
    as_comment(deep);
    as_run(folder, reinterpret_cast<const uint8_t*>(deep.data()), deep.size());
    return true;
  }();
  static_cast<void>(once);
  as_comment({reinterpret_cast<const char*>(data), size});
  as_run(folder, data, size);
  return 0;
}
