/* SPDX-License-Identifier: MIT
 * Internal side of safetensors files: parsing from memory (fuzzed), and a writer in two stages for
 * checkpoints. */
#ifndef TCC_RUNTIME_FILES_SAFETENSORS_H
#define TCC_RUNTIME_FILES_SAFETENSORS_H

#include "runtime/files/file.h"
#include "traincc/checkpoint.h"

/* Parse `size` bytes at `bytes`, which must outlive the result. `path` is for messages. */
tcc_status tcc__safetensors_parse(tcc_diag *d, const char *path, const uint8_t *bytes, size_t size,
                                  tcc_safetensors **out);
tcc_status tcc__safetensors_open(tcc_diag *d, const char *path, tcc_safetensors **out);
/* Its type and shape in words, as "f32[2,3]"; of a tensor that cannot be read as the file has them. */
const char *tcc__safetensors_type(const tcc_safetensors *f, int index);
/* TCC_EINVAL for an array that lies on a device; `what` is one in words. */
tcc_status tcc__array_on_host(tcc_diag *d, tcc_loc at, const char *what, const tcc_array *a);
/* The header's own checksum is in its metadata: of the header's text with zeros in the checksum's place. */
#define TCC__HEADER_CRC_KEY "traincc.header_crc32"
uint32_t tcc__safetensors_header_crc(const char *text, size_t length, size_t crc_at);
/* Compare the tensors' bytes and the header with the checksums in the metadata; a file without them passes. */
tcc_status tcc__safetensors_verify(tcc_diag *d, const tcc_safetensors *f);
/* Write and sync under the temporary name; tcc__out_rename(d, o) commits. *crc gets the checksum.
 */
tcc_status tcc__safetensors_stage(tcc_diag *d, tcc__out *o, const char *path, const tcc_array *arrays, int count,
                                  const tcc_pair *metadata, int metadata_count, uint32_t *crc);

#endif
