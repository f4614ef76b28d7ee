// A generate job as the process behind a model of `kinora serve`, or behind a Pipeline of the Python module: its
// requests come from a socket.
#pragma once
#include "core/run/job.hpp"
#include "plugins/jobs/inference/generate_options.hpp"

namespace kinora::core {

// Loads the pipeline once and makes the videos that messages ask for, one or a batch after the other, until the socket
// ends.
// Messages are JSON, one a line:
//
//   {"check": N, "fields": {...}}                -> {"checked": N, "fields": {...}, "bytes": B, "alike": TEXT}, with
//                                                   every default and the memory of such a video, or "error"
//   {"make": ID, "folder": DIR, "fields": {...}} -> {"progress": 0.4, "video": ID}, ..., then
//                                                   {"done": {...}, "times": {...}, "video": ID} or
//                                                   {"failed": WHY, "video": ID}, with "code": "disk_full" if it is
//     with "frames": "whole"                     the frames, uint8 RGB, are in the file "frames" of DIR, and the last
//                                                   message has "settings": {...}, those of the MP4
//     with "frames": "chunks"                    -> {"frames": [T, H, W, 3], "file": FILE, "number": N,
//                                                   "first_frame": F, "video": ID}, ..., which wait for
//                                                   {"steer": ID, "taken": N}, see FrameFiles; at the end as above;
//                                                   not in a batch
//   {"batch": [{"make": ID, ...}, ...]}          -> the same for each; their calls of the model are made together
//   {"live": ID, "folder": DIR, "fields": {...}} -> {"start": {"mime", ...}, "live": ID}, then
//                                                   {"chunk": {...}, "file": FILE, "number": N, "live": ID}, ...,
//                                                   {"done": {...}, "live": ID} or {"failed": WHY, "live": ID};
//                                                   with "branch": {"session": ID, "chunk": N} it continues a session
//                                                   that has ended, after its first N chunks
//   {"forget": ID}                                  of a session that has ended: no other one continues it
//   {"steer": ID, ...}, of a live session: "taken": N, "pause": true, "rewind": CHUNK, or "prompt" with its "event_id"
//                                                   and what it has of a shot: "cut", "switch", "blend"; no more than
//                                                   the id: its viewer may come back
//                                                -> {"error": {...}, "live": ID} if it cannot
//   {"cancel": ID}
//
// fields: those of apps/serve/fields.hpp. alike: videos of the same text can share the calls of the model; "": none can
// with this one. DIR gets live.mp4, which plays while it grows, video.mp4 at the end, until then the finished chunks,
// with which another process continues (kept_chunks.hpp), and the pictures of Stills, or a FILE for each chunk of a
// live session; the first FILE is the beginning of the MP4. times: seconds, see VideoTimes. {"ready": {...},
// "loras": [NAME, ...], "inputs": ["text", ...], "outputs": ["video", ...], "makes_live": true, "makes_shots": true,
// "weights": B}, with the defaults of a request and the bytes of the weights, is the first message.
// Several ranks make each video together, and the first has the socket. Each beats (beats.hpp) from the beginning
// on, if the descriptor of a pipe is in KINORA_BEATS.
void serve_requests(JobContext& context, const GenerateOptions& options, int socket);

// The descriptor that such a process is given, in KINORA_REQUESTS; -1: none.
int socket_of_requests();

}  // namespace kinora::core
