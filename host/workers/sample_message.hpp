// Sends a sample to another process. Large data goes in pieces of memory or of a file, one per field or
// tensor, so that each is freed as soon as it is no longer used; the receiver maps it without copying. Shared
// memory is sealed: its sender can neither shrink nor change it afterwards. Data that came in a file is sent
// on in it, so the frames of a long video are written only once.
#pragma once
#include <functional>
#include <memory>

#include "host/workers/channel.hpp"
#include "kinora/sample.hpp"

namespace kinora::core {

// Memory in which a field or tensor came.
struct SamplePiece {
  virtual ~SamplePiece() = default;
  virtual uint8_t* data() const = 0;
  // The same memory for sending it on without a copy; empty if there is none.
  virtual Descriptor again() const { return Descriptor(); }
};

// A field, or a tensor if `managed` is not null, that becomes a piece.
struct LargeData {
  const Sample& sample;
  const std::string_view name;
  const kinora_dl_managed* const managed;
  const void* const data;
  const size_t size;
};
// Keeps a piece for the receiver, and returns its number. They are put and taken in the same order.
using PutPiece = std::function<size_t(const LargeData&)>;
// The piece of this number, of at least so many bytes. Throws std::out_of_range if there is none.
using TakePiece = std::function<std::shared_ptr<SamplePiece>(size_t number, size_t size)>;

// Adds the sample as the head's member "sample". Throws Error, for example for a tensor on a GPU.
void put_sample(Message&, const Sample&, const PutPiece&);
void put_sample(Message&, const Sample&);
// The sample in a message. Throws Error(KINORA_ERROR_DATA) if the message is inconsistent.
Sample take_sample(const Message&, const TakePiece&);
Sample take_sample(const Message&);

}  // namespace kinora::core
