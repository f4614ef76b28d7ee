#include "core/plugin/elf.hpp"

#include <cstring>
#include <elf.h>
#include <random>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "tests/abi/plugins_folder.hpp"

namespace kinora::core::test {
namespace {

using testing::HasSubstr;

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Elf : public testing::Test {
 protected:
  ~Elf() override { close(file_); }
  // Reads from a file in memory: thousands of files on disk would take most of the test's time.
  Result<std::optional<std::string>> read(const std::string& bytes) const {
    EXPECT_EQ(ftruncate(file_, 0), 0);
    EXPECT_EQ(pwrite(file_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    const auto needs = read_needs("/proc/self/fd/" + std::to_string(file_));
    for (const auto& name : needs ? needs->libraries : std::vector<std::string>())
      EXPECT_LT(name.size(), 4096u);
    return read_embedded_manifest("/proc/self/fd/" + std::to_string(file_));
  }
  Result<Needs> needs(const std::string& bytes) const {
    (void)read(bytes);
    return read_needs("/proc/self/fd/" + std::to_string(file_));
  }
  // The dynamic section with another value for the entry `tag`.
  std::string with_dynamic(Elf64_Sxword tag, Elf64_Xword value) const {
    std::string out = good_;
    Elf64_Ehdr header;
    std::memcpy(&header, out.data(), sizeof header);
    for (size_t i = 0; i < header.e_shnum; ++i) {
      Elf64_Shdr section;
      std::memcpy(&section, out.data() + header.e_shoff + i * sizeof section, sizeof section);
      for (uint64_t at = 0; section.sh_type == SHT_DYNAMIC && at < section.sh_size; at += sizeof(Elf64_Dyn)) {
        Elf64_Dyn entry;
        std::memcpy(&entry, out.data() + section.sh_offset + at, sizeof entry);
        if (entry.d_tag != tag) continue;
        entry.d_un.d_val = value;
        std::memcpy(out.data() + section.sh_offset + at, &entry, sizeof entry);
        return out;
      }
    }
    ADD_FAILURE() << "no such entry";
    return out;
  }
  // The library with one field of its header changed.
  template <class T>
  std::string with(T Elf64_Ehdr::*field, T value) const {
    std::string out = good_;
    Elf64_Ehdr header;
    std::memcpy(&header, out.data(), sizeof header);
    header.*field = value;
    std::memcpy(out.data(), &header, sizeof header);
    return out;
  }
  std::string says(const std::string& bytes) const {
    const auto r = read(bytes);
    return r ? "no error" : r.failure().message;
  }
  const int file_ = memfd_create("library", MFD_CLOEXEC);
  std::string good_ = bytes_of(PluginsFolder::built("pure_c_stage"));
};

TEST_F(Elf, ReadsTheSection) {
  const auto r = read(good_);
  ASSERT_TRUE(r && *r);
  EXPECT_THAT(**r, HasSubstr("id = \"stage/count.bytes\""));
  EXPECT_EQ((*r)->back(), '\n');
  EXPECT_TRUE(parse_manifest(**r, "x"));
}

TEST_F(Elf, LibraryWithoutTheSectionIsNoError) {
  const auto r = read_embedded_manifest(PluginsFolder::built("minimal"));
  ASSERT_TRUE(r);
  EXPECT_FALSE(*r);
}

TEST_F(Elf, ReadsWhatTheLibraryNeeds) {
  const auto plain = read_needs(PluginsFolder::built("missing_library"));
  ASSERT_TRUE(plain);
  EXPECT_THAT(plain->libraries, testing::Contains("libkinora_absent.so.3"));
  EXPECT_EQ(plain->run_path, "");
  EXPECT_EQ(read_needs(PluginsFolder::built("library_beside"))->run_path, "$ORIGIN:$ORIGIN/../shared/libs");
}

TEST_F(Elf, NamesOutsideTheirTableAreAnError) {
  ASSERT_TRUE(needs(good_));
  EXPECT_FALSE(needs(good_)->libraries.empty());
  for (const Elf64_Xword at : {good_.size(), size_t{1} << 40, size_t{0} - 1}) {
    const auto r = needs(with_dynamic(DT_NEEDED, at));
    ASSERT_FALSE(r);
    EXPECT_THAT(r.failure().message, HasSubstr("the name of a library or a run path at"));
  }
}

TEST_F(Elf, ExportsAreWhatTheLinkerSees) {
  const auto exports = [](const char* name) {
    auto names = or_throw(read_exports(std::string(KINORA_ABI_PLUGINS) + "/lib" + name + ".so"));
    std::erase_if(names, [](const auto& n) { return n.starts_with("__odr_asan."); });  // the sanitizer's own
    return names;
  };
  EXPECT_THAT(exports("minimal"), testing::UnorderedElementsAre("kinora_plugin_entry"));
  EXPECT_THAT(exports("exports"),
              testing::UnorderedElementsAre("kinora_plugin_entry", "own_a", "own_b", "own_c", "own_d"));
}

TEST_F(Elf, SaysInWordsWhatItIsInstead) {
  std::string small = good_, big = good_;
  small[EI_CLASS] = ELFCLASS32;
  big[EI_DATA] = ELFDATA2MSB;
  EXPECT_THAT(says(small), HasSubstr("a 32-bit library"));
  EXPECT_THAT(says(big), HasSubstr("a big-endian library"));
  EXPECT_THAT(says(with(&Elf64_Ehdr::e_machine, Elf64_Half{EM_RISCV})),
              HasSubstr("a library for RISC-V, this machine is"));
  EXPECT_THAT(says(with(&Elf64_Ehdr::e_type, Elf64_Half{ET_REL})), HasSubstr("not a shared library"));
  EXPECT_THAT(says(with(&Elf64_Ehdr::e_shoff, Elf64_Off{UINT64_MAX - 8})), HasSubstr("ends after the file"));
  EXPECT_THAT(says(with(&Elf64_Ehdr::e_shstrndx, Elf64_Half{60000})), HasSubstr("section 60000"));
  EXPECT_THAT(says(with(&Elf64_Ehdr::e_shentsize, Elf64_Half{3})), HasSubstr("section headers of 3 bytes"));
  EXPECT_THAT(says(""), HasSubstr("not an ELF file"));
  EXPECT_THAT(read_embedded_manifest(KINORA_ABI_PLUGINS).failure().message, HasSubstr("not a regular file"));
}

TEST_F(Elf, TruncatedAnywhereIsAnErrorOrAnAnswer) {
  for (size_t size = 0; size < good_.size(); size += 1 + size / 16) {
    const auto r = read(good_.substr(0, size));
    EXPECT_TRUE(!r || !*r || !(*r)->empty());
  }
}

// Damages the ELF header and the table of sections. Any result but a crash is right.
TEST_F(Elf, DamagedTablesAreAnErrorOrAnAnswer) {
  Elf64_Ehdr header;
  std::memcpy(&header, good_.data(), sizeof header);
  std::mt19937_64 random(20240817);
  const uint64_t extremes[] = {
      0, 1, 0x7fffffff, 0xffffffff, uint64_t{1} << 63, UINT64_MAX, UINT64_MAX - 63, good_.size()};
  size_t errors = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = good_;
    for (uint64_t n = 1 + random() % 3; n > 0; --n) {
      const bool in_header = random() % 3 == 0;
      const size_t at = in_header ? random() % sizeof header
                                  : header.e_shoff + random() % (header.e_shnum * sizeof(Elf64_Shdr));
      const size_t width = size_t{1} << random() % 4;
      const uint64_t value = random() % 2 ? extremes[random() % std::size(extremes)] : random();
      if (at + width <= bytes.size()) std::memcpy(bytes.data() + at, &value, width);
    }
    errors += !read(bytes);
  }
  EXPECT_GT(errors, 300u);
}

}  // namespace
}  // namespace kinora::core::test
