#include "core/run/apply_published.hpp"

#include <algorithm>
#include <fstream>
#include <set>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/status.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

bool reads(const ComponentSpec& spec, const char* name) {
  return std::any_of(spec.inputs.begin(), spec.inputs.end(),
                     [&](const TensorSpec& t) { return t.name == name; });
}
bool reads_text(const ComponentSpec& spec) { return reads(spec, "input_ids"); }
bool reads_pictures(const ComponentSpec& spec) {
  return spec.kind == "model" && (reads(spec, "image") || reads(spec, "video")) && !reads(spec, "latent");
}

std::vector<const char*> parts_for(const ComponentSpec& spec) {
  if (spec.kind == "tokenizer") return {"vae"};
  if (reads_text(spec)) return {"text_encoder"};
  if (reads_pictures(spec)) return {"image_encoder"};
  return {"transformer", "unet"};
}

}  // namespace

std::vector<fs::path> archives_of(const fs::path& given) {
  const auto is_archive = [](const fs::path& file) {
    return file.extension() == ".jit" || file.extension() == ".pt" || file.extension() == ".pth";
  };
  std::error_code ignored;
  if (!fs::is_directory(given, ignored))
    return is_archive(given) ? std::vector{given} : std::vector<fs::path>();
  if (fs::exists(given / "encoder.jit", ignored)) return {given / "encoder.jit", given / "decoder.jit"};
  std::vector<fs::path> out;
  for (fs::directory_iterator it(given, ignored), end; it != end; it.increment(ignored)) {
    if (it->path().string().find(".safetensors") != std::string::npos) return {};
    if (is_archive(it->path())) out.push_back(it->path());
  }
  return out.size() == 1 ? out : std::vector<fs::path>();
}

const char* published_stem(const ComponentSpec& spec) {
  return reads_text(spec) || reads_pictures(spec) ? "model" : "diffusion_pytorch_model";
}

std::optional<PublishedExperts> published_experts(const fs::path& given, const ComponentSpec& spec) {
  std::error_code ignored;
  for (const char* part : parts_for(spec)) {
    PublishedExperts found{given / part, given / (std::string(part) + "_2"), 0};
    if (!fs::exists(given / "model_index.json", ignored) || !fs::is_directory(found.high, ignored) ||
        !fs::is_directory(found.low, ignored))
      continue;
    std::ifstream in(given / "model_index.json");
    const auto index = nlohmann::json::parse(in, nullptr, false);
    const auto ratio = index.is_object() ? index.value("boundary_ratio", nlohmann::json()) : nlohmann::json();
    if (ratio.is_number()) found.boundary = ratio.get<double>();
    return found;
  }
  return std::nullopt;
}

fs::path published_part(const fs::path& given, const ComponentSpec& spec) {
  std::error_code ignored;
  if (!fs::exists(given / "model_index.json", ignored)) return given;
  for (const char* part : parts_for(spec))
    if (fs::is_directory(given / part, ignored)) {
      if (published_experts(given, spec))
        throw Error(
            KINORA_UNSUPPORTED,
            fmt::format("{}: of this pipeline's two experts, {} for high noise and {}_2 for low noise, "
                        "only a generate job takes both; name one of the two folders",
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
