! SPDX-License-Identifier: MIT
! Types of the Fortran module lie in memory as those of C do, and arrays go round by it.
program module_test
    use traincc
    implicit none
    interface
        function c_array() bind(c); import; integer(c_size_t) :: c_array; end function
        function c_optimizer() bind(c); import; integer(c_size_t) :: c_optimizer; end function
        function c_model() bind(c); import; integer(c_size_t) :: c_model; end function
        function c_info() bind(c); import; integer(c_size_t) :: c_info; end function
        function c_contents() bind(c); import; integer(c_size_t) :: c_contents; end function
    end interface
    type(tcc_array), target :: a
    type(tcc_optimizer_options), target :: optimizer
    type(tcc_model_options), target :: model
    type(tcc_program_info), target :: info
    type(tcc_checkpoint_contents), target :: contents
    type(c_ptr) :: context, file
    real(c_float), target :: x(3, 2) = reshape([1, 2, 3, 4, 5, 6], [3, 2])
    real(c_float), pointer :: y(:, :)
    integer(c_int64_t), target :: n(1) = [7_c_int64_t]

    call expect("array", c_array(), c_loc(a), c_loc(a%memory), c_sizeof(a))
    call expect("optimizer", c_optimizer(), c_loc(optimizer), c_loc(optimizer%ema_ramp), c_sizeof(optimizer))
    call expect("model", c_model(), c_loc(model), c_loc(model%sync_batch_norm), c_sizeof(model))
    call expect("info", c_info(), c_loc(info), c_loc(info%cache_trouble), c_sizeof(info))
    call expect("contents", c_contents(), c_loc(contents), c_loc(contents%n_values), c_sizeof(contents))

    if (tcc_context_create(context) /= TCC_OK) stop 1
    if (tcc_safetensors_write(context, "module.safetensors" // c_null_char, [tcc_view("x", x), tcc_view("n", n)], 2, &
                              metadata_count=0) /= TCC_OK) stop tcc_message(context)
    if (tcc_safetensors_open(context, "module.safetensors" // c_null_char, file) /= TCC_OK) stop tcc_message(context)
    a = tcc_safetensors_get(file, tcc_safetensors_find(file, "x" // c_null_char))
    if (a%dtype /= TCC_F32 .or. a%rank /= 2 .or. any(a%dims(1:2) /= [2, 3])) stop "another array"
    call c_f_pointer(a%data, y, [3, 2])
    if (any(y /= x)) stop "other elements"
    call tcc_safetensors_close(file)
    a = tcc_device_view("x", TCC_F64, c_loc(x), [3, 2], c_loc(n)) ! addresses go through as they are
    if (a%dtype /= TCC_F64 .or. any(a%dims(1:3) /= [2, 3, 0])) stop "another array on the device"
    if (a%memory /= TCC_MEMORY_DEVICE) stop "another memory"
    if (address(a%data) /= address(c_loc(x)) .or. address(a%stream) /= address(c_loc(n))) stop "another address"
    if (tcc_safetensors_open(context, "nowhere" // c_null_char, file) == TCC_OK) stop "a file that is not there"
    if (index(tcc_message(context), "nowhere") == 0) stop "an error without the file's name"
    call tcc_context_destroy(context)
    print "(a)", "the module fits"

contains

    function address(p) result(number)
        type(c_ptr), intent(in) :: p
        integer(c_intptr_t) :: number
        number = transfer(p, number)
    end function

    subroutine expect(what, wanted, whole, last, size_bytes)
        character(len=*), intent(in) :: what
        integer(c_size_t), intent(in) :: wanted, size_bytes
        type(c_ptr), intent(in) :: whole, last
        integer(c_intptr_t) :: offset
        offset = transfer(last, offset) - transfer(whole, offset)
        if (offset * 10000 + size_bytes == wanted) return
        print *, what, " lies otherwise: offset, size ", offset, size_bytes, "; of C ", wanted / 10000, mod(wanted, 10000_c_size_t)
        stop 1
    end subroutine
end program
