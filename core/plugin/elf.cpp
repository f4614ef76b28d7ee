#include "core/plugin/elf.hpp"

#include <cerrno>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <unistd.h>
#include <vector>

#include <sys/stat.h>

namespace kinora::core {
namespace {

constexpr std::string_view section_name = ".kinora.manifest";
constexpr uint64_t max_manifest = uint64_t{1} << 20;
constexpr uint64_t max_table = uint64_t{16} << 20;  // section headers, or their names

#if defined(__x86_64__)
constexpr uint16_t machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t machine = EM_AARCH64;
#else
#error "name this machine's ELF number here and in machine_name()"
#endif

std::string machine_name(uint16_t m) {
  switch (m) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "AArch64";
    case EM_386:
      return "32-bit x86";
    case EM_ARM:
      return "32-bit ARM";
    case EM_RISCV:
      return "RISC-V";
    case EM_PPC64:
      return "POWER";
    case EM_S390:
      return "IBM Z";
    default:
      return fmt::format("machine number {}", m);
  }
}

// A regular file, read at checked offsets.
class File {
 public:
  explicit File(const std::filesystem::path& path)
      : name_(path.string()), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }

  Status stat_it() {
    struct stat s {};
    if (fd_ < 0 || fstat(fd_, &s) != 0)
      return fail(errno == ENOENT ? KINORA_NOT_FOUND : KINORA_IO, "{}: {}", name_, std::strerror(errno));
    if (!S_ISREG(s.st_mode)) return fail(KINORA_DATA, "{}: not a regular file", name_);
    size_ = static_cast<uint64_t>(s.st_size);
    return {};
  }
  Status read(uint64_t offset, void* to, uint64_t size, const char* what) const {
    if (offset > size_ || size > size_ - offset) {
      return fail(
          KINORA_DATA,
          "{}: damaged library: {} at byte {} of size {} ends after the file ({} bytes); build it again",
          name_, what, offset, size, size_);
    }
    for (uint64_t done = 0; done < size;) {
      const ssize_t n =
          pread(fd_, static_cast<char*>(to) + done, size - done, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0)
        return fail(KINORA_IO, "{}: {}", name_, n == 0 ? "the file became shorter" : std::strerror(errno));
      done += static_cast<uint64_t>(n);
    }
    return {};
  }
  template <class T>
  Result<T> value(uint64_t offset, const char* what) const {
    T out;
    const auto status = read(offset, &out, sizeof out, what);
    if (!status) return status.failure();
    return out;
  }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  int fd_;
  uint64_t size_ = 0;
};

Status check_header(const File& file, const Elf64_Ehdr& h) {
  const auto& name = file.name();
  if (h.e_ident[EI_CLASS] != ELFCLASS64)
    return fail(KINORA_DATA, "{}: a 32-bit library; build it for 64 bits", name);
  if (h.e_ident[EI_DATA] != ELFDATA2LSB)
    return fail(KINORA_DATA, "{}: a big-endian library; build it for this machine", name);
  if (h.e_machine != machine) {
    return fail(KINORA_DATA, "{}: a library for {}, this machine is {}; build it here", name,
                machine_name(h.e_machine), machine_name(machine));
  }
  if (h.e_type != ET_DYN)
    return fail(KINORA_DATA, "{}: no shared library (ELF type {}, expected {})", name, h.e_type, ET_DYN);
  return {};
}

Result<Elf64_Ehdr> read_header(const File& file) {
  unsigned char magic[SELFMAG] = {};
  const auto begin = file.read(0, magic, sizeof magic, "the ELF magic");
  if (!begin || std::memcmp(magic, ELFMAG, SELFMAG) != 0)
    return fail(KINORA_DATA, "{}: no ELF file, so no library", file.name());
  auto header = file.value<Elf64_Ehdr>(0, "the ELF header");
  if (!header) return header;
  const auto status = check_header(file, *header);
  if (!status) return status.failure();
  return header;
}

// All section headers. Counts that do not fit 16 bits are in the first one.
Result<std::vector<Elf64_Shdr>> read_sections(const File& file, const Elf64_Ehdr& h) {
  std::vector<Elf64_Shdr> out;
  if (h.e_shoff == 0) return out;
  if (h.e_shentsize != sizeof(Elf64_Shdr)) {
    return fail(KINORA_DATA, "{}: damaged library: section headers of {} bytes, expected {}; build it again",
                file.name(), h.e_shentsize, sizeof(Elf64_Shdr));
  }
  uint64_t count = h.e_shnum;
  if (count == 0) {
    const auto first = file.value<Elf64_Shdr>(h.e_shoff, "the first section header");
    if (!first) return first.failure();
    count = first->sh_size;
  }
  if (count > max_table / sizeof(Elf64_Shdr))
    return fail(KINORA_DATA, "{}: damaged library: {} sections; build it again", file.name(), count);
  out.resize(count);
  const auto status = file.read(h.e_shoff, out.data(), count * sizeof(Elf64_Shdr), "the table of sections");
  if (!status) return status.failure();
  return out;
}

Result<std::string> read_section(const File& file, const Elf64_Shdr& s, uint64_t at_most, const char* what) {
  if (s.sh_type == SHT_NOBITS || s.sh_size > at_most) {
    return fail(KINORA_DATA, "{}: damaged library: {} of {} bytes, at most {} expected; build it again",
                file.name(), what, s.sh_size, at_most);
  }
  // Before memory is taken for it: a short file with a large number must not cost more than its own size.
  char last = 0;
  if (s.sh_size > 0) {
    if (s.sh_offset > UINT64_MAX - s.sh_size)
      return fail(KINORA_DATA, "{}: damaged library: {} has no end", file.name(), what);
    const auto end = file.read(s.sh_offset + s.sh_size - 1, &last, 1, what);
    if (!end) return end.failure();
  }
  std::string out(s.sh_size, '\0');
  const auto status = file.read(s.sh_offset, out.data(), out.size(), what);
  if (!status) return status.failure();
  return out;
}

bool has_name(const std::string& names, uint32_t at) {
  if (at >= names.size() || names.size() - at <= section_name.size()) return false;
  return std::string_view(names).substr(at, section_name.size()) == section_name &&
         names[at + section_name.size()] == '\0';
}

}  // namespace

Result<std::optional<std::string>> read_embedded_manifest(const std::filesystem::path& library) {
  File file(library);
  const auto opened = file.stat_it();
  if (!opened) return opened.failure();
  const auto header = read_header(file);
  if (!header) return header.failure();
  const auto sections = read_sections(file, *header);
  if (!sections) return sections.failure();
  if (sections->empty()) return std::optional<std::string>();
  const uint64_t names_at = header->e_shstrndx == SHN_XINDEX ? (*sections)[0].sh_link : header->e_shstrndx;
  if (names_at == SHN_UNDEF) return std::optional<std::string>();
  if (names_at >= sections->size()) {
    return fail(KINORA_DATA, "{}: damaged library: section {} of {} has the names; build it again",
                file.name(), names_at, sections->size());
  }
  const auto names = read_section(file, (*sections)[names_at], max_table, "the section names");
  if (!names) return names.failure();
  for (const auto& section : *sections) {
    if (!has_name(*names, section.sh_name)) continue;
    auto text = read_section(file, section, max_manifest, "section .kinora.manifest");
    if (!text) return text.failure();
    return std::optional<std::string>(*std::move(text));
  }
  return std::optional<std::string>();
}

}  // namespace kinora::core
