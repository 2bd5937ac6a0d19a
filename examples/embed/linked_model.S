/* The artifact MODEL as read-only data of the executable, where qrt_artifact_open_memory takes it. */
    .section .rodata.model, "a", @progbits
    .global linked_model, linked_model_end
    .balign 4096
linked_model:
    .incbin MODEL
linked_model_end:
    .section .note.GNU-stack, "", @progbits
