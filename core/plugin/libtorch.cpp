#include "core/plugin/libtorch.hpp"

#include <fstream>

#include "core/base/paths.hpp"
#include "core/build_info.hpp"
#include "core/plugin/elf.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// The version of the torch package whose libraries are in this folder, without a suffix such as "+cu130"; ""
// for libraries without a package, which come with the installation.
std::string version_in(const fs::path& libraries) {
  constexpr std::string_view before = "__version__ = '";
  std::ifstream in(libraries.parent_path() / "version.py");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(before))
      return line.substr(before.size(), line.find_first_of("+'", before.size()) - before.size());
  return "";
}

// The entries of a library's run path that are complete, or relative to its own folder.
std::vector<fs::path> run_path_of(const fs::path& library) {
  constexpr std::string_view origin = "$ORIGIN";
  std::vector<fs::path> out;
  if (const auto needs = read_needs(library))
    for (const auto& folder : split_paths(needs->run_path))
      out.push_back(folder.string().starts_with(origin)
                        ? library.parent_path() / ("." + folder.string().substr(origin.size()))
                        : folder);
  return out;
}

// Folders of torch in the Python environments that a shell has activated.
std::vector<fs::path> active_environments() {
  std::vector<fs::path> out;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const fs::path place = environment(name);
    std::error_code none;
    if (place.empty()) continue;
    for (const auto& python : fs::directory_iterator(place / "lib", none))
      if (python.path().filename().string().starts_with("python3"))
        out.push_back(python.path() / "site-packages/torch/lib");
  }
  return out;
}

}  // namespace

Result<fs::path> find_libtorch(const fs::path& beside, const std::string& version,
                               const fs::path& configured) {
  std::vector<fs::path> places;
  const std::string given = environment("KINORA_TORCH");
  if (!given.empty()) {
    places.push_back(fs::path(given) / "lib");
  } else {
    places = run_path_of(beside);
    for (auto& place : split_paths(environment("LD_LIBRARY_PATH"))) places.push_back(std::move(place));
    for (auto& place : active_environments()) places.push_back(std::move(place));
    if (!configured.empty()) places.push_back(configured / "lib");
  }
  std::string others;
  for (const auto& place : places) {
    std::error_code error;
    if (!fs::is_regular_file(place / "libtorch_cpu.so", error)) continue;
    const std::string found = version_in(place);
    if (found.empty() || found == version) return fs::canonical(place);
    others += fmt::format("; {} is version {}", place.parent_path().string(), found);
  }
  if (!given.empty())
    return fail(
        KINORA_ERROR_UNSUPPORTED,
        "libtorch {0} is required and was not found in KINORA_TORCH={1}{2}; set KINORA_TORCH to the folder "
        "torch of that package (pip install torch=={0}), or unset it to use the active Python environment",
        version, given, others);
  const std::string where = fmt::format("in {} and in the active Python environment",
                                        beside.parent_path().lexically_normal().string());
  return fail(KINORA_ERROR_UNSUPPORTED,
              "libtorch {0} is required and was not found {1}{2}; install it in a Python environment that is "
              "active (pip install torch=={0}), or set KINORA_TORCH to the folder of that torch package",
              version, where, others);
}

const Result<fs::path>& libtorch_folder() {
  static const auto folder = find_libtorch(library_folder() / KINORA_LIBRARY("kinora_torch"),
                                           KINORA_TORCH_VERSION, KINORA_TORCH_PLACE);
  return folder;
}

}  // namespace kinora::core
