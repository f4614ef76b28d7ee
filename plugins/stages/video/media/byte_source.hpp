#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace kinora::video {

// Random-access bytes: what every film and clip is read from, so that a local file, an object store and a
// block of memory are the same to the demuxer. All reading of media goes through this interface; no URL is
// ever opened.
//
// [any-thread] One source may serve several decoders at once.
struct ByteSource {
  virtual ~ByteSource() = default;

  // Total length in bytes; the same value at every call.
  virtual int64_t size() = 0;

  // Copies up to n bytes at `offset` into `buffer` (caller's memory, at least n bytes) and returns how many:
  // fewer than n only at the end, 0 at or past it. May throw; the exception reaches the caller of the decoder
  // unchanged.
  virtual int64_t read_at(int64_t offset, void* buffer, int64_t n) = 0;
};

// Bytes in memory: borrowed (they must outlive the source) from an lvalue or span, owned when a vector is
// moved in.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::span<const uint8_t> borrowed) : bytes_(borrowed) {}
  explicit MemorySource(std::vector<uint8_t>&& owned) : owned_(std::move(owned)), bytes_(owned_) {}
  MemorySource(const MemorySource&) = delete;
  MemorySource& operator=(const MemorySource&) = delete;

  int64_t size() override { return static_cast<int64_t>(bytes_.size()); }
  int64_t read_at(int64_t offset, void* buffer, int64_t n) override;

 private:
  std::vector<uint8_t> owned_;
  std::span<const uint8_t> bytes_;
};

// A local file, opened read-only for the life of the source. MediaError when it cannot be opened or read.
class FileSource final : public ByteSource {
 public:
  explicit FileSource(const std::filesystem::path& path);
  ~FileSource() override;
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  int64_t size() override { return size_; }
  int64_t read_at(int64_t offset, void* buffer, int64_t n) override;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

}  // namespace kinora::video
