#include "core/plugin/needed.hpp"

#include <algorithm>
#include <dlfcn.h>

#include "core/paths.hpp"
#include "core/plugin/elf.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// Which package of Debian 12, or which wheel, has a library that a plugin may need.
struct Package {
  std::string_view library, package;
};
constexpr Package packages[] = {
    {"libtorch", "the torch wheel that Kinora was built with (packaging/dev.sh setup)"},
    {"libc10", "the torch wheel that Kinora was built with (packaging/dev.sh setup)"},
    {"libav", "FFmpeg (apt install ffmpeg)"},
    {"libsw", "FFmpeg (apt install ffmpeg)"},
    {"libhdf5", "HDF5 (apt install libhdf5-103-1)"},
    {"libarchive", "libarchive (apt install libarchive13)"},
    {"libsqlite3", "SQLite (apt install libsqlite3-0)"},
    {"libcurl", "libcurl (apt install libcurl4)"},
    {"libutf8proc", "utf8proc (apt install libutf8proc2)"},
    {"libcuda.", "the NVIDIA driver"},
    {"libcudart", "the CUDA 13 runtime (pip install nvidia-cuda-runtime)"},
    {"libcublas", "cuBLAS of CUDA 13 (pip install nvidia-cublas)"},
    {"libcudnn", "cuDNN 9 (pip install nvidia-cudnn-cu13)"},
    {"libnccl", "NCCL (pip install nvidia-nccl-cu13)"},
};

// The dynamic linker's own, without /etc/ld.so.conf: that is left to itself.
constexpr const char* system_folders[] = {
#if defined(__x86_64__)
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
#elif defined(__aarch64__)
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
#endif
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib"};

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

struct Places {
  std::vector<fs::path> folders;
  bool complete =
      true;  // false: one of them depends on what only the dynamic linker knows ($LIB, glibc-hwcaps)

  void add(fs::path folder) {
    if (std::find(folders.begin(), folders.end(), folder) == folders.end())
      folders.push_back(std::move(folder));
  }
  // An empty entry is the current folder, as for the dynamic linker.
  void add_list(std::string_view list, const fs::path& origin, std::string_view separators) {
    if (list.empty()) return;
    for (size_t begin = 0; begin <= list.size();) {
      const size_t end = std::min(list.find_first_of(separators, begin), list.size());
      std::string entry(list.substr(begin, end - begin));
      for (const std::string_view token : {"${ORIGIN}", "$ORIGIN"})
        for (size_t at = 0; (at = entry.find(token, at)) != entry.npos; at += origin.string().size())
          entry.replace(at, token.size(), origin.string());
      if (entry.find('$') != entry.npos)
        complete = false;
      else
        add(entry.empty() ? "." : entry);
      begin = end + 1;
    }
  }
  void add_run_path(const fs::path& library, std::string_view run_path) {
    std::error_code error;
    const fs::path real = fs::canonical(library, error);
    add_list(run_path, (error ? library : real).parent_path(), ":");
  }
  bool has(const std::string& name) const {
    return std::any_of(folders.begin(), folders.end(), [&](const fs::path& f) { return is_file(f / name); });
  }
  // Libraries for newer processors lie in folders of their own below these.
  bool is_complete() const {
    std::error_code error;
    return complete && std::none_of(folders.begin(), folders.end(),
                                    [&](const fs::path& f) { return fs::exists(f / "glibc-hwcaps", error); });
  }
};

// Opened for good if it is there: the plugin would open it next, and what was opened is never closed.
bool linker_finds(const std::string& name) { return dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr; }

bool is_missing(const std::string& name, const Places& own, const Places& usual) {
  if (name.find('/') != name.npos) return name.find('$') == name.npos && !is_file(name);
  return !own.has(name) && !usual.has(name) && own.is_complete() && !linker_finds(name);
}

}  // namespace

std::string remedy_for(std::string_view library) {
  for (const auto& p : packages)
    if (library.starts_with(p.library)) return fmt::format("install {}", p.package);
  return fmt::format(
      "install the package that has it (apt-file search {}), or add its folder to LD_LIBRARY_PATH", library);
}

Status check_needed(const fs::path& library, Tier tier, const HostFacts& host) {
  const auto needs = read_needs(library);
  if (!needs) return needs.failure();
  Places own, usual;
  own.add_run_path(library, needs->run_path);
  if (tier == Tier::pinned && !host.torch_library.empty())
    if (const auto torch = read_needs(host.torch_library))
      own.add_run_path(host.torch_library, torch->run_path);
  usual.add_list(environment("LD_LIBRARY_PATH"), executable_folder(), ":;");
  for (const auto* folder : system_folders) usual.add(folder);
  std::string missing;
  for (const auto& name : needs->libraries)
    if (is_missing(name, own, usual))
      missing += fmt::format("{}needs {}, which is not installed; {}", missing.empty() ? "" : "; ", name,
                             remedy_for(name));
  if (!missing.empty()) return fail(KINORA_UNSUPPORTED, "{}", missing);
  return {};
}

}  // namespace kinora::core
