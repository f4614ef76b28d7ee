#include "core/plugin/elf.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <sys/stat.h>

namespace kinora::core {
namespace {

// A shared library's file, read at checked offsets.
class ElfFile {
 public:
  explicit ElfFile(const std::filesystem::path& path);
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;
  ~ElfFile();

  // Reads the header and the section table. KINORA_ERROR_DATA with the reason if it is not a shared library
  // for this machine.
  Status open();

  // Valid after open(). Empty: the table was stripped.
  const Elf64_Ehdr& header() const { return header_; }
  const std::vector<Elf64_Shdr>& sections() const { return sections_; }

  // KINORA_ERROR_DATA if the section is not entirely inside the file, or larger than `at_most` bytes.
  Result<std::string> contents(const Elf64_Shdr& section, uint64_t at_most, const char* what) const;
  // The NUL-terminated text at `at` in a section of strings, at most 4,095 bytes.
  Result<std::string> text(const Elf64_Shdr& strings, uint64_t at, const char* what) const;

  const std::string& name() const { return name_; }

 private:
  Status stat_it();
  Status read(uint64_t offset, void* to, uint64_t size, const char* what) const;
  template <class T>
  Result<T> value(uint64_t offset, const char* what) const;
  Status check_header() const;
  Status read_header();
  Status read_sections();

  std::string name_;
  int fd_;
  uint64_t size_ = 0;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Shdr> sections_;
};

constexpr uint64_t max_table = uint64_t{16} << 20;
constexpr uint64_t max_text = 4096;

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

ElfFile::ElfFile(const std::filesystem::path& path)
    : name_(path.string()), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}

ElfFile::~ElfFile() {
  if (fd_ >= 0) ::close(fd_);
}

Status ElfFile::open() {
  if (auto status = stat_it(); !status) return status;
  if (auto status = read_header(); !status) return status;
  return read_sections();
}

Status ElfFile::stat_it() {
  struct stat s {};
  if (fd_ < 0 || fstat(fd_, &s) != 0)
    return fail(errno == ENOENT ? KINORA_ERROR_NOT_FOUND : KINORA_ERROR_IO, "{}: {}", name_,
                std::strerror(errno));
  if (!S_ISREG(s.st_mode)) return fail(KINORA_ERROR_DATA, "{}: not a regular file", name_);
  size_ = static_cast<uint64_t>(s.st_size);
  return {};
}

Status ElfFile::read(uint64_t offset, void* to, uint64_t size, const char* what) const {
  if (offset > size_ || size > size_ - offset) {
    return fail(
        KINORA_ERROR_DATA,
        "{}: damaged library: {} at byte {} of size {} ends after the file ({} bytes); build it again", name_,
        what, offset, size, size_);
  }
  for (uint64_t done = 0; done < size;) {
    const ssize_t n =
        pread(fd_, static_cast<char*>(to) + done, size - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      return fail(KINORA_ERROR_IO, "{}: {}", name_,
                  n == 0 ? "the file became shorter" : std::strerror(errno));
    done += static_cast<uint64_t>(n);
  }
  return {};
}

template <class T>
Result<T> ElfFile::value(uint64_t offset, const char* what) const {
  T out;
  const auto status = read(offset, &out, sizeof out, what);
  if (!status) return status.failure();
  return out;
}

Status ElfFile::check_header() const {
  const Elf64_Ehdr& h = header_;
  if (h.e_ident[EI_CLASS] != ELFCLASS64)
    return fail(KINORA_ERROR_DATA, "{}: a 32-bit library; build it for 64 bits", name_);
  if (h.e_ident[EI_DATA] != ELFDATA2LSB)
    return fail(KINORA_ERROR_DATA, "{}: a big-endian library; build it for this machine", name_);
  if (h.e_machine != machine) {
    return fail(KINORA_ERROR_DATA, "{}: a library for {}, this machine is {}; build it here", name_,
                machine_name(h.e_machine), machine_name(machine));
  }
  if (h.e_type != ET_DYN)
    return fail(KINORA_ERROR_DATA, "{}: not a shared library (ELF type {}, expected {})", name_, h.e_type,
                ET_DYN);
  return {};
}

Status ElfFile::read_header() {
  unsigned char magic[SELFMAG] = {};
  const auto begin = read(0, magic, sizeof magic, "the ELF magic");
  if (!begin || std::memcmp(magic, ELFMAG, SELFMAG) != 0)
    return fail(KINORA_ERROR_DATA, "{}: not an ELF file, so not a library", name_);
  const auto header = value<Elf64_Ehdr>(0, "the ELF header");
  if (!header) return header.failure();
  header_ = *header;
  return check_header();
}

// Counts that do not fit 16 bits are in the first section header.
Status ElfFile::read_sections() {
  const Elf64_Ehdr& h = header_;
  if (h.e_shoff == 0) return {};
  if (h.e_shentsize != sizeof(Elf64_Shdr)) {
    return fail(KINORA_ERROR_DATA,
                "{}: damaged library: section headers of {} bytes, expected {}; build it again", name_,
                h.e_shentsize, sizeof(Elf64_Shdr));
  }
  uint64_t count = h.e_shnum;
  if (count == 0) {
    const auto first = value<Elf64_Shdr>(h.e_shoff, "the first section header");
    if (!first) return first.failure();
    count = first->sh_size;
  }
  if (count > max_table / sizeof(Elf64_Shdr))
    return fail(KINORA_ERROR_DATA, "{}: damaged library: {} sections; build it again", name_, count);
  sections_.resize(count);
  return read(h.e_shoff, sections_.data(), count * sizeof(Elf64_Shdr), "the table of sections");
}

Result<std::string> ElfFile::contents(const Elf64_Shdr& s, uint64_t at_most, const char* what) const {
  if (s.sh_type == SHT_NOBITS || s.sh_size > at_most) {
    return fail(KINORA_ERROR_DATA, "{}: damaged library: {} of {} bytes, at most {} expected; build it again",
                name_, what, s.sh_size, at_most);
  }
  // Checked before memory is allocated for it: a short file with a large number must not cost more than its own size.
  char last = 0;
  if (s.sh_size > 0) {
    if (s.sh_offset > UINT64_MAX - s.sh_size)
      return fail(KINORA_ERROR_DATA, "{}: damaged library: {} has no end", name_, what);
    const auto end = read(s.sh_offset + s.sh_size - 1, &last, 1, what);
    if (!end) return end.failure();
  }
  std::string out(s.sh_size, '\0');
  const auto status = read(s.sh_offset, out.data(), out.size(), what);
  if (!status) return status.failure();
  return out;
}

Result<std::string> ElfFile::text(const Elf64_Shdr& strings, uint64_t at, const char* what) const {
  if (at >= strings.sh_size || strings.sh_offset > UINT64_MAX - at)
    return fail(KINORA_ERROR_DATA, "{}: damaged library: {} at {} of {} bytes of names; build it again",
                name_, what, at, strings.sh_size);
  const uint64_t begin = strings.sh_offset + at;
  const uint64_t in_file = begin < size_ ? size_ - begin : 0;
  std::string out(std::min({strings.sh_size - at, in_file, max_text}), '\0');
  if (const auto status = read(begin, out.data(), out.size(), what); !status) return status.failure();
  const auto end = out.find('\0');
  if (end == out.npos)
    return fail(KINORA_ERROR_DATA, "{}: damaged library: {} has no end; build it again", name_, what);
  out.resize(end);
  return out;
}

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
    return fail(KINORA_ERROR_DATA, "{}: damaged library: section {} of {} has the names; build it again",
                file.name(), names_at, sections.size());
  }
  const auto names = file.contents(sections[names_at], max_names, "the section names");
  if (!names) return names.failure();
  for (const auto& section : sections) {
    if (!has_name(*names, section.sh_name)) continue;
    auto text = file.contents(section, max_manifest, "section .kinora.manifest");
    if (!text) return text.failure();
    text->erase(text->find_last_not_of('\0') + 1);  // clang's ASan pads every constant
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
      return fail(KINORA_ERROR_DATA,
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

Result<std::vector<std::string>> read_exports(const std::filesystem::path& library) {
  ElfFile file(library);
  if (const auto opened = file.open(); !opened) return opened.failure();
  std::vector<std::string> out;
  for (const auto& section : file.sections()) {
    if (section.sh_type != SHT_DYNSYM || section.sh_link >= file.sections().size()) continue;
    const auto bytes = file.contents(section, max_table, "section .dynsym");
    if (!bytes) return bytes.failure();
    for (size_t at = 0; at + sizeof(Elf64_Sym) <= bytes->size(); at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      std::memcpy(&symbol, bytes->data() + at, sizeof symbol);
      const bool is_own =
          symbol.st_shndx != SHN_UNDEF && symbol.st_shndx != SHN_ABS;  // SHN_ABS: a version's name
      const unsigned char visible = ELF64_ST_VISIBILITY(symbol.st_other);
      if (!is_own || ELF64_ST_BIND(symbol.st_info) == STB_LOCAL || visible == STV_HIDDEN ||
          visible == STV_INTERNAL)
        continue;
      auto name = file.text(file.sections()[section.sh_link], symbol.st_name, "the name of a symbol");
      if (!name) return name.failure();
      out.push_back(*std::move(name));
    }
  }
  return out;
}

}  // namespace kinora::core
