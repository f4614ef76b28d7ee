#include "core/run/apply_published.hpp"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "core/status.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

bool reads(const ComponentSpec& spec, const char* name) {
  return std::any_of(spec.inputs.begin(), spec.inputs.end(),
                     [&](const TensorSpec& t) { return t.name == name; });
}
bool reads_text(const ComponentSpec& spec) { return reads(spec, "input_ids"); }
bool reads_pictures(const ComponentSpec& spec) { return reads(spec, "image") && !reads(spec, "latent"); }

std::vector<const char*> parts_for(const ComponentSpec& spec) {
  if (spec.kind == "tokenizer") return {"vae"};
  if (reads_text(spec)) return {"text_encoder"};
  if (reads_pictures(spec)) return {"image_encoder"};
  return {"transformer", "unet"};
}

}  // namespace

const char* published_stem(const ComponentSpec& spec) {
  return reads_text(spec) || reads_pictures(spec) ? "model" : "diffusion_pytorch_model";
}

fs::path published_part(const fs::path& given, const ComponentSpec& spec) {
  std::error_code ignored;
  if (!fs::exists(given / "model_index.json", ignored)) return given;
  for (const char* part : parts_for(spec))
    if (fs::is_directory(given / part, ignored)) {
      if (fs::is_directory(given / (std::string(part) + "_2"), ignored))
        throw Error(
            KINORA_UNSUPPORTED,
            fmt::format(
                "{}: this pipeline changes from {}_2 to {} on the way, which is not supported; name one of "
                "the two folders",
                given.string(), part, part));
      return given / part;
    }
  std::set<std::string> there;
  for (fs::directory_iterator it(given, ignored), end; it != end; it.increment(ignored))
    if (it->is_directory(ignored)) there.insert(it->path().filename().string());
  throw Error(
      KINORA_NOT_FOUND,
      fmt::format("{}: this pipeline has no {} for {}; it has: {}; name the folder itself", given.string(),
                  fmt::join(parts_for(spec), " or "), spec.id, fmt::join(there, ", ")));
}

}  // namespace kinora::core
