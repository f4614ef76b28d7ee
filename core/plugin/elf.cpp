#include "core/plugin/elf.hpp"

#include <cstring>

#include "core/plugin/elf_file.hpp"

namespace kinora::core {
namespace {

constexpr std::string_view section_name = ".kinora.manifest";
constexpr uint64_t max_manifest = uint64_t{1} << 20;
constexpr uint64_t max_names = uint64_t{16} << 20;
constexpr uint64_t max_dynamic = uint64_t{1} << 20;

bool has_name(const std::string& names, uint32_t at) {
  if (at >= names.size() || names.size() - at <= section_name.size()) return false;
  return std::string_view(names).substr(at, section_name.size()) == section_name &&
         names[at + section_name.size()] == '\0';
}

std::vector<Elf64_Dyn> dynamic_entries(const std::string& bytes) {
  std::vector<Elf64_Dyn> out(bytes.size() / sizeof(Elf64_Dyn));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * sizeof(Elf64_Dyn));
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i].d_tag != DT_NULL) continue;
    out.resize(i);
    break;
  }
  return out;
}

}  // namespace

Result<std::optional<std::string>> read_embedded_manifest(const std::filesystem::path& library) {
  ElfFile file(library);
  if (const auto opened = file.open(); !opened) return opened.failure();
  const auto& sections = file.sections();
  if (sections.empty()) return std::optional<std::string>();
  const uint64_t names_at =
      file.header().e_shstrndx == SHN_XINDEX ? sections[0].sh_link : file.header().e_shstrndx;
  if (names_at == SHN_UNDEF) return std::optional<std::string>();
  if (names_at >= sections.size()) {
    return fail(KINORA_DATA, "{}: damaged library: section {} of {} has the names; build it again",
                file.name(), names_at, sections.size());
  }
  const auto names = file.contents(sections[names_at], max_names, "the section names");
  if (!names) return names.failure();
  for (const auto& section : sections) {
    if (!has_name(*names, section.sh_name)) continue;
    auto text = file.contents(section, max_manifest, "section .kinora.manifest");
    if (!text) return text.failure();
    return std::optional<std::string>(*std::move(text));
  }
  return std::optional<std::string>();
}

Result<Needs> read_needs(const std::filesystem::path& library) {
  ElfFile file(library);
  if (const auto opened = file.open(); !opened) return opened.failure();
  Needs out;
  std::string rpath;
  for (const auto& section : file.sections()) {
    if (section.sh_type != SHT_DYNAMIC) continue;
    if (section.sh_link >= file.sections().size())
      return fail(KINORA_DATA,
                  "{}: damaged library: section {} of {} has the names of its libraries; build it again",
                  file.name(), section.sh_link, file.sections().size());
    const auto& strings = file.sections()[section.sh_link];
    const auto bytes = file.contents(section, max_dynamic, "section .dynamic");
    if (!bytes) return bytes.failure();
    for (const auto& entry : dynamic_entries(*bytes)) {
      if (entry.d_tag != DT_NEEDED && entry.d_tag != DT_RUNPATH && entry.d_tag != DT_RPATH) continue;
      auto text = file.text(strings, entry.d_un.d_val, "the name of a library or a run path");
      if (!text) return text.failure();
      if (entry.d_tag == DT_NEEDED)
        out.libraries.push_back(*std::move(text));
      else
        (entry.d_tag == DT_RUNPATH ? out.run_path : rpath) = *std::move(text);
    }
    break;
  }
  if (out.run_path.empty()) out.run_path = rpath;
  return out;
}

}  // namespace kinora::core
